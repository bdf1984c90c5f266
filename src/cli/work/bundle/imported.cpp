#include "cli/work/bundle/imported.hpp"

#include <optional>
#include <variant>

#include "base/json.hpp"

namespace attnjit::cli {

void Imported::add(Fate fate, const std::optional<std::string>& why_not) {
  kept_.add(why_not);
  if (!why_not) ++fates_[fate];
}

std::size_t Imported::count(Fate fate) const {
  const auto found = fates_.find(fate);
  return found == fates_.end() ? 0 : found->second;
}

std::string Imported::text() const {
  return fmt::format("{} added, {} replaced, {} kept as they were, {} rejected{}",
                     count(Fate::kAdded), count(Fate::kReplaced), count(Fate::kStayed),
                     rejected_.size(),
                     kept_.missing() == 0 ? "" : fmt::format(", {} not kept", kept_.missing()));
}

base::Json Imported::json() const {
  return {{"added", count(Fate::kAdded)},
          {"replaced", count(Fate::kReplaced)},
          {"kept", count(Fate::kStayed)},
          {"not_kept", kept_.missing()},
          {"rejected", rejected_}};
}

void Imported::report_errors(std::string_view what, Console& console) const {
  for (const std::string& text : rejected_) console.error(text);
  kept_.report(what, console);
}

void import_record(const tuner::AnyRecord& record, tuner::RecordStore& disk, Imported& imported) {
  using Fate = Imported::Fate;
  std::visit(
      [&](const auto& each) {
        const auto present = disk.find_exact(each.key);
        if (present && &better(*present, each) == &*present) {
          return imported.add(Fate::kStayed, std::nullopt);
        }
        imported.add(present ? Fate::kReplaced : Fate::kAdded, disk.publish(each));
      },
      record);
}

}  // namespace attnjit::cli
