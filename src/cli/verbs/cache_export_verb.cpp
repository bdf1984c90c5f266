#include <algorithm>
#include <vector>

#include "base/json.hpp"
#include "cli/report/kept.hpp"
#include "cli/report/table.hpp"
#include "cli/verbs/sweep_report.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bundle/bundle_contents.hpp"

namespace attnjit::cli {
namespace {

ExitCode finish(const cache::BundleWriter& writer, const std::string& file,
                const std::vector<std::string>& unusable, Session& session) {
  writer.write(file);
  Console& console = session.console();
  const auto bytes = static_cast<double>(std::filesystem::file_size(file));
  for (const std::string& text : unusable) console.error(text + "; left out");
  console.print("{}: {} kernels and {} tuning records, {}", file, writer.kernels(),
                writer.records(), human_bytes(bytes));
  console.print_json({{"file", file},
                      {"kernels", writer.kernels()},
                      {"records", writer.records()},
                      {"bytes", bytes},
                      {"unusable", unusable}});
  return unusable.empty() ? ExitCode::kDone : ExitCode::kSomeFailed;
}

ExitCode export_everything(const ExportOptions& options, Session& session) {
  for (const std::string& name : options.workload.archs) codegen::find_arch(name);
  cache::BundleWriter writer;
  const auto unusable = add_everything(writer, options.workload.archs, session);
  if (writer.kernels() + writer.records() > 0) {
    return finish(writer, options.file, unusable, session);
  }
  for (const std::string& text : unusable) session.console().error(text);
  throw Error(
      ErrorKind::kCache,
      fmt::format("{} holds no usable kernel{}: nothing is written; attnjit warmup fills it",
                  session.environment().cache_directory->string(),
                  options.workload.archs.empty() ? "" : " of these architectures"));
}

ExitCode export_manifest(const ExportOptions& options, Session& session) {
  const Workload workload = load_workload(options.workload, session.console());
  const auto archs = named_archs(workload, "cache export");
  Planner planner(session.engine(), std::nullopt, session.recorded_devices());
  Sweep sweep = list_kernels(
      workload.cases, archs,
      [&](const Case& job, const codegen::Arch& arch) { return planner.variants(job, arch); });
  look_up_all(sweep, session);
  const auto lacks = [](const SweptKernel& kernel) { return kernel.code != ExitCode::kDone; };
  if (std::ranges::any_of(sweep.kernels, lacks)) {
    return report_sweep(sweep, session);  // says what is missing; nothing is written
  }
  cache::BundleWriter writer;
  add_kernels(writer, sweep, session);
  add_records(writer, workload.cases, archs, session);
  return finish(writer, options.file, {}, session);
}

}  // namespace

ExitCode cache_export(const ExportOptions& options, Session& session) {
  expect_cache(session.environment(), "cache export");
  if (const auto& trouble = session.environment().cache_trouble) {
    throw Error(ErrorKind::kCache, *trouble);
  }
  return options.workload.manifest.empty() ? export_everything(options, session)
                                           : export_manifest(options, session);
}

}  // namespace attnjit::cli
