#include <variant>
#include <vector>

#include "base/json.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bundle_import.hpp"

namespace attnjit::cli {
namespace {

ExitCode refuse(const std::string& file, const std::string& reason,
                const std::vector<std::string>& damaged, Console& console) {
  for (const std::string& text : damaged) console.error(text);
  console.error(fmt::format("{} is not imported: {}", file, reason));
  console.print_json({{"file", file}, {"error", reason}, {"damaged", damaged}});
  return ExitCode::kVerification;
}

Json counts_json(const ImportCounts& counts) {
  return {{"added", counts.added},
          {"kept", counts.kept},
          {"rejected", counts.rejected},
          {"failed", counts.failed}};
}

void report(const char* what, const ImportCounts& counts, Console& console) {
  console.print("{}: {} added, {} kept as they were, {} rejected, {} not kept", what, counts.added,
                counts.kept, counts.rejected.size(), counts.failed.size());
  for (const std::string& text : counts.rejected) console.error(text);
  for (const std::string& text : counts.failed) {
    console.error(text + " could not be put into the cache");
  }
}

}  // namespace

ExitCode cache_import(const std::string& file, Session& session) {
  expect_cache_directory(session, "cache import");
  Console& console = session.console();
  const auto opened = cache::Bundle::open(file);
  if (const auto* const reason = std::get_if<std::string>(&opened)) {
    return refuse(file, *reason, {}, console);
  }
  const auto& bundle = std::get<cache::Bundle>(opened);
  if (const auto damaged = damaged_members(bundle); !damaged.empty()) {
    return refuse(file, fmt::format("{} of its members are damaged", damaged.size()), damaged,
                  console);
  }
  const ImportCounts kernels = import_kernels(bundle, session);
  const ImportCounts records = import_records(bundle, session);
  report("kernels", kernels, console);
  report("tuning records", records, console);
  console.print_json(
      {{"file", file}, {"kernels", counts_json(kernels)}, {"records", counts_json(records)}});
  const std::size_t there = kernels.there() + records.there();
  if (there == bundle.members().size()) return ExitCode::kDone;
  return there == 0 ? ExitCode::kFailure : ExitCode::kSomeFailed;
}

}  // namespace attnjit::cli
