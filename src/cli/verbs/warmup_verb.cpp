#include "cli/report/kept.hpp"
#include "cli/verbs/sweep_report.hpp"
#include "cli/verbs/verbs.hpp"

namespace attnjit::cli {

ExitCode warmup(const WarmupOptions& options, Session& session) {
  if (!options.check) expect_cache(session.environment(), "warmup");
  const Workload workload = load_workload(options.workload, session.console());
  const auto archs = named_archs(workload, "warmup");
  Planner planner(session.engine(), std::nullopt, session.recorded_devices());
  const auto make_plans = [&](const Case& job, const codegen::Arch& arch) {
    return planner.variants(job, arch);
  };
  const auto list = [&] { return list_kernels(workload.cases, archs, make_plans); };
  Sweep sweep = list();
  if (options.check) {
    look_up_all(sweep, session);
    return report_sweep(sweep, session);
  }
  compile_all(sweep, session);
  // A kernel that the compiler made slow is known now, and calls run another in its place.
  Sweep with_fallbacks = list();
  keep_results(sweep, with_fallbacks);
  compile_all(with_fallbacks, session);
  return report_kept_sweep(with_fallbacks, session);
}

}  // namespace attnjit::cli
