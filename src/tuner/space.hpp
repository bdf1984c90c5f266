#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/arch.hpp"
#include "problem/family.hpp"

namespace attnjit::tuner {

/// configs/tuning/forward.json as it was when the library was built.
std::string_view embedded_forward_space();

/// The configurations that tuning may choose from, as data.
class SearchSpace {
 public:
  SearchSpace() : SearchSpace(embedded_forward_space()) {}

  /// Reads JSON with comments (configs/schema/tuning.schema.json). Throws
  /// Error(kInvalidEnvironment) that says what is wrong where.
  explicit SearchSpace(std::string_view json);

  /// What a record must name to be used with this space.
  const std::string& name() const { return name_; }

  /// What to try for `key` on `arch`: configuration 0 first, then each other configuration of the
  /// space once that is legal there and no mere padding. A pure function.
  std::vector<kernel::ForwardConfig> candidates(const problem::PlanKey& key,
                                                const codegen::Arch& arch) const;

 private:
  struct Group {
    std::int32_t least_head_dim = 1, most_head_dim = 256;
    std::int32_t max_rows = std::numeric_limits<std::int32_t>::max();
    std::vector<std::string> configs;  ///< members to set, a JSON object each

    bool serves(const problem::PlanKey& key) const;
  };

  std::string name_;
  std::vector<Group> groups_;
};

}  // namespace attnjit::tuner
