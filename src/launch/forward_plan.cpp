#include "launch/forward_plan.hpp"

#include <utility>

namespace attnjit::launch {

ForwardPlan::ForwardPlan(ForwardPlanSpec spec,
                         std::vector<std::unique_ptr<cuda::Library>> libraries)
    : spec_(std::move(spec)), libraries_(std::move(libraries)) {
  for (std::size_t i = 0; i < spec_.steps.size(); ++i) {
    kernels_.emplace_back(*libraries_[i], spec_.steps[i].source.entry, spec_.steps[i].shared_bytes);
  }
}

void ForwardPlan::launch(const cuda::Driver& driver, const problem::Problem& problem,
                         const ForwardArgs& args, const WorkspaceLayout& layout, void* workspace,
                         CUstream stream) const {
  ForwardArguments arguments(spec_, problem, args, layout, workspace);
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    if (!arguments.runs(i)) continue;
    cuda::launch(driver, kernels_[i].function(), arguments.shape(i), stream,
                 arguments.parameters(i));
  }
}

}  // namespace attnjit::launch
