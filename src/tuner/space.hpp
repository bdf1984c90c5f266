#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/patch.hpp"
#include "codegen/arch.hpp"
#include "tuner/tuned.hpp"

namespace attnjit::tuner {

/// The configurations that tuning may choose from, as data.
template <class PlanKey>
class BasicSearchSpace {
 public:
  using Tunables = TunablesFor<PlanKey>;

  /// configs/tuning/<pass>.json as it was when the library was built. It is read whenever
  /// candidates are asked for, which is seldom: a context costs little until it tunes.
  BasicSearchSpace();

  /// Reads JSON with comments (configs/schema/tuning.schema.json). Throws
  /// Error(kInvalidEnvironment) that says what is wrong where.
  explicit BasicSearchSpace(std::string_view json);

  /// The name that records of this space have.
  const std::string& name() const { return name_; }

  /// The candidates for `key` on `arch`: configuration 0 first, then each other configuration of
  /// the space once that is legal there and no mere padding. A pure function.
  std::vector<Tunables> candidates(const PlanKey& key, const codegen::Arch& arch) const;

 private:
  struct Group {
    std::int32_t least_head_dim = 1, most_head_dim = 256;
    std::int32_t max_rows = std::numeric_limits<std::int32_t>::max();
    std::optional<bool> operands;                   ///< with, or only without, a mask or bias
    std::vector<base::Patch<Tunables>> candidates;  ///< of configuration 0

    bool serves(const PlanKey& key) const;
  };

  std::string name_;
  std::optional<std::vector<Group>> groups_;  // nullopt: those that are built in
};

using SearchSpace = BasicSearchSpace<problem::PlanKey>;
using BackwardSearchSpace = BasicSearchSpace<problem::BackwardPlanKey>;

}  // namespace attnjit::tuner
