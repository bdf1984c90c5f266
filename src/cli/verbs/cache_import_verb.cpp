#include <variant>
#include <vector>

#include "base/json.hpp"
#include "cli/report/kept.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bundle/bundle_import.hpp"

namespace attnjit::cli {
namespace {

ExitCode refuse(const std::string& file, const std::string& reason,
                const std::vector<std::string>& damaged, Console& console) {
  for (const std::string& text : damaged) console.error(text);
  console.error(fmt::format("{} is not imported: {}", file, reason));
  console.print_json({{"file", file}, {"error", reason}, {"damaged", damaged}});
  return ExitCode::kVerification;
}

}  // namespace

ExitCode cache_import(const std::string& file, Session& session) {
  expect_cache(session.environment(), "cache import");
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
  const Imported kernels = import_kernels(bundle, session);
  const Imported records = import_records(bundle, session);
  console.print("kernels: {}", kernels.text());
  console.print("tuning records: {}", records.text());
  console.print_json({{"file", file}, {"kernels", kernels.json()}, {"records", records.json()}});
  kernels.report_errors("kernels are", console);
  records.report_errors("records are", console);
  return kept_code(kernels.there() + records.there(), kernels.missing() + records.missing());
}

}  // namespace attnjit::cli
