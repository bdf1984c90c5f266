#include <algorithm>
#include <vector>

#include "cli/verbs/sweep_report.hpp"
#include "cli/verbs/verbs.hpp"

namespace attnjit::cli {
namespace {

// Every kind of device that there are records of, where records are read at all.
std::vector<tuner::DeviceClass> recorded_devices(Session& session) {
  std::vector<tuner::DeviceClass> devices;
  if (session.environment().autotune == base::AutotuneMode::kOff) return devices;
  for (const tuner::AnyRecord& record : session.engine().records().list()) {
    const tuner::DeviceClass& device = device_of(record);
    if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
  }
  return devices;
}

}  // namespace

ExitCode warmup(const WarmupOptions& options, Session& session) {
  const Workload workload = load_workload(options.workload, session.console());
  if (workload.archs.empty()) {
    usage_error(
        "neither --arch nor the manifest names an architecture; add one, for instance --arch "
        "sm_90a: warmup does not ask the GPU of this machine");
  }
  Planner planner(session.engine(), std::nullopt, recorded_devices(session));
  const auto make_plans = [&](const Case& job, const codegen::Arch& arch) {
    return planner.variants(job, arch);
  };
  Sweep sweep = list_kernels(workload.cases, choose_archs(workload, session), make_plans);
  if (options.check) {
    look_up_all(sweep, session);
  } else {
    compile_all(sweep, session);
  }
  return report_sweep(sweep, session);
}

}  // namespace attnjit::cli
