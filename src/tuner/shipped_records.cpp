#include "tuner/shipped_records.hpp"

#include <algorithm>
#include <string>

#include "attnjit/error.hpp"

namespace attnjit::tuner {
namespace {

std::optional<AnyRecord> read(std::string_view line, base::Log& log) {
  try {
    return record_from_json(line);
  } catch (const Error& error) {
    log.info("a tuning record of the library is not used: {}", error.what());
    return std::nullopt;
  }
}

}  // namespace

ShippedRecords::ShippedRecords(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    if (end > 0) lines_.push_back(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

// Lines are compared as text, for there may be hundreds and a process needs a few of them.
template <class PlanKey>
std::optional<BasicRecord<PlanKey>> ShippedRecords::find(const BasicTuneKey<PlanKey>& key,
                                                         base::Log& log) const {
  const std::string beginning = beginning_of_line(key);
  const auto found = std::ranges::find_if(
      lines_, [&](std::string_view line) { return line.starts_with(beginning); });
  if (found == lines_.end()) return std::nullopt;
  const auto record = read(*found, log);
  return record ? std::optional(std::get<BasicRecord<PlanKey>>(*record)) : std::nullopt;
}

std::vector<AnyRecord> ShippedRecords::list(base::Log& log) const {
  std::vector<AnyRecord> records;
  for (const std::string_view line : lines_) {
    if (auto record = read(line, log)) records.push_back(*std::move(record));
  }
  return records;
}

template std::optional<Record> ShippedRecords::find(const TuneKey&, base::Log&) const;
template std::optional<BackwardRecord> ShippedRecords::find(const BackwardTuneKey&,
                                                            base::Log&) const;

}  // namespace attnjit::tuner
