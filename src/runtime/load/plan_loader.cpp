#include "runtime/load/plan_loader.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "runtime/load/kernel_loader.hpp"

namespace attnjit::runtime {

codegen::Arch arch_of(const cuda::DeviceInfo& device) {
  codegen::Arch arch = codegen::find_arch(device.arch());
  arch.sm_count = device.sm_count;
  return arch;
}

tuner::DeviceClass device_class(const cuda::DeviceInfo& device) {
  return {device.name, device.sm_count, device.arch(), device.l2_bytes};
}

template <class Spec>
std::vector<std::shared_ptr<const cache::Entry>> get_kernels(Engine& engine, const Spec& spec,
                                                             const codegen::Arch& arch,
                                                             const problem::ProblemText& problem) {
  std::vector<std::shared_ptr<const cache::Entry>> entries(spec.steps.size());
  base::parallel_for(entries.size(), engine.environment().jobs, [&](std::size_t i) {
    entries[i] = engine.kernel(spec.steps[i].source, arch, problem);
  });
  return entries;
}

template <class Pass>
std::unique_ptr<launch::Plan<Pass>> load_plan(Engine& engine, const cuda::Driver& driver,
                                              typename Pass::Spec spec, const codegen::Arch& arch,
                                              const typename Pass::Problem& problem) {
  const problem::ProblemText text = problem::problem_text(problem);
  const auto entries = get_kernels(engine, spec, arch, text);
  // Modules are loaded on the thread whose context is current.
  std::vector<std::unique_ptr<cuda::Library>> libraries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    libraries.push_back(load_kernel(engine, driver, *entries[i], spec.steps[i].source, arch, text));
  }
  return std::make_unique<launch::Plan<Pass>>(std::move(spec), std::move(libraries));
}

template std::vector<std::shared_ptr<const cache::Entry>> get_kernels(
    Engine&, const launch::ForwardPlanSpec&, const codegen::Arch&, const problem::ProblemText&);
template std::vector<std::shared_ptr<const cache::Entry>> get_kernels(
    Engine&, const launch::BackwardPlanSpec&, const codegen::Arch&, const problem::ProblemText&);
template std::vector<std::shared_ptr<const cache::Entry>> get_kernels(Engine&,
                                                                      const launch::MergePlanSpec&,
                                                                      const codegen::Arch&,
                                                                      const problem::ProblemText&);
template std::vector<std::shared_ptr<const cache::Entry>> get_kernels(Engine&,
                                                                      const launch::MaskPlanSpec&,
                                                                      const codegen::Arch&,
                                                                      const problem::ProblemText&);
template std::unique_ptr<launch::ForwardPlan> load_plan<launch::ForwardPass>(
    Engine&, const cuda::Driver&, launch::ForwardPlanSpec, const codegen::Arch&,
    const problem::Problem&);
template std::unique_ptr<launch::BackwardPlan> load_plan<launch::BackwardPass>(
    Engine&, const cuda::Driver&, launch::BackwardPlanSpec, const codegen::Arch&,
    const problem::BackwardProblem&);
template std::unique_ptr<launch::MergePlan> load_plan<launch::MergePass>(
    Engine&, const cuda::Driver&, launch::MergePlanSpec, const codegen::Arch&,
    const problem::MergeProblem&);
template std::unique_ptr<launch::MaskPlan> load_plan<launch::MaskPass>(Engine&, const cuda::Driver&,
                                                                       launch::MaskPlanSpec,
                                                                       const codegen::Arch&,
                                                                       const problem::MaskProblem&);

}  // namespace attnjit::runtime
