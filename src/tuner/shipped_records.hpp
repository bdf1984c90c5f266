#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "tuner/record.hpp"

namespace attnjit::tuner {

/// Tuning records that come with the library. Thread-safe.
class ShippedRecords {
 public:
  /// `lines`: records as to_json() writes them, a line each; must outlive this.
  explicit ShippedRecords(std::string_view lines);

  /// The record of `key` itself. One that cannot be understood counts as absent, with a line in
  /// `log`.
  template <class PlanKey>
  std::optional<BasicRecord<PlanKey>> find(const BasicTuneKey<PlanKey>& key, base::Log& log) const;

  /// All that can be understood.
  std::vector<AnyRecord> list(base::Log& log) const;

 private:
  std::vector<std::string_view> lines_;
};

}  // namespace attnjit::tuner
