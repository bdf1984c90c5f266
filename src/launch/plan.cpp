#include "launch/plan.hpp"

#include <utility>

namespace attnjit::launch {

template <class Pass>
Plan<Pass>::Plan(typename Pass::Spec spec, std::vector<std::unique_ptr<cuda::Library>> libraries)
    : spec_(std::move(spec)), libraries_(std::move(libraries)) {
  for (std::size_t i = 0; i < spec_.steps.size(); ++i) {
    const StepSpec& step = spec_.steps[i];
    kernels_.emplace_back(*libraries_[i], step.source.entry, step.shared_bytes);
  }
}

template <class Pass>
TensorMapMaker Plan<Pass>::maker(const cuda::Driver& driver) const {
  const cuda::DriverApi& api = driver.api();
  return {api.tensor_map_encode_tiled, api.tensor_map_replace_address, maps_};
}

template <class Pass>
typename Pass::Kept Plan<Pass>::keep(const cuda::Driver& driver,
                                     const typename Pass::Problem& problem,
                                     const typename Pass::Args& args) const {
  return Pass::keep(spec_, problem, args, maker(driver));
}

template <class Pass>
void Plan<Pass>::launch(const cuda::Driver& driver, const typename Pass::Problem& problem,
                        const typename Pass::Args& args, const typename Pass::Layout& layout,
                        void* workspace, CUstream stream, const typename Pass::Kept& kept) const {
  auto arguments = Pass::arguments(spec_, problem, args, layout, workspace, maker(driver), kept);
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    if (!arguments.runs(i)) continue;
    cuda::launch(driver, kernels_[i].function(), arguments.shape(i), stream,
                 arguments.parameters(i));
  }
}

template class Plan<ForwardPass>;
template class Plan<BackwardPass>;
template class Plan<MergePass>;
template class Plan<MaskPass>;

}  // namespace attnjit::launch
