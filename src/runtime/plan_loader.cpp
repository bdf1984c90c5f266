#include "runtime/plan_loader.hpp"

#include <utility>
#include <vector>

namespace attnjit::runtime {

codegen::Arch arch_of(const cuda::DeviceInfo& device) {
  codegen::Arch arch = codegen::find_arch(device.arch());
  arch.sm_count = device.sm_count;
  return arch;
}

tuner::DeviceClass device_class(const cuda::DeviceInfo& device) {
  return {device.name, device.sm_count, device.arch(), device.l2_bytes};
}

std::unique_ptr<launch::ForwardPlan> load_plan(Engine& engine, const cuda::Driver& driver,
                                               launch::ForwardPlanSpec spec,
                                               const codegen::Arch& arch,
                                               const problem::Problem& problem) {
  std::vector<std::unique_ptr<cuda::Library>> libraries;
  for (const launch::StepSpec& step : spec.steps) {
    const auto entry = engine.kernel(step.source, arch, problem::describe(problem));
    libraries.push_back(std::make_unique<cuda::Library>(driver, entry->cubin));
  }
  return std::make_unique<launch::ForwardPlan>(std::move(spec), std::move(libraries));
}

}  // namespace attnjit::runtime
