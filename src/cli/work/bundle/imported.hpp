#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "cli/report/kept.hpp"
#include "tuner/record_store.hpp"

namespace attnjit::cli {

/// The fate of kernels or records that were to be put into the cache directory.
class Imported {
 public:
  enum class Fate { kAdded, kReplaced, kStayed };

  /// `why_not` nullopt: it is on disk now, and `fate` says how that came about.
  void add(Fate fate, const std::optional<std::string>& why_not);
  /// For one that this version cannot use; `text` names it and says why.
  void reject(std::string text) { rejected_.push_back(std::move(text)); }

  std::size_t there() const { return kept_.kept(); }
  std::size_t missing() const { return kept_.missing() + rejected_.size(); }

  /// "2 added, 0 replaced, 1 kept as they were, 0 rejected".
  std::string text() const;
  base::Json json() const;
  /// Says what was rejected, and each reason why some are not on disk; `what` as for Kept.
  void report_errors(std::string_view what, Console& console) const;

 private:
  std::size_t count(Fate fate) const;

  std::map<Fate, std::size_t> fates_;
  Kept kept_;
  std::vector<std::string> rejected_;
};

/// Puts `record` into `disk`, a store without bundles, unless the one that is there is better.
void import_record(const tuner::AnyRecord& record, tuner::RecordStore& disk, Imported& imported);

}  // namespace attnjit::cli
