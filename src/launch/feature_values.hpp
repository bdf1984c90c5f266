#pragma once
#include "attnjit/forward.hpp"
#include "codegen/features.hpp"

namespace attnjit::launch {

/// As kernels take it.
inline kernel::BatchCycle batch_cycle(const problem::BatchCycle& cycle) {
  return {static_cast<kernel::uint32>(cycle.planes), static_cast<kernel::uint32>(cycle.period)};
}

/// Sets the features' kernel parameters, but for those of a mask that a prepass looks at: each pass
/// has its own.
void set_feature_values(const problem::Problem& problem, const ForwardArgs& args,
                        codegen::Pass pass, codegen::FeatureValues& values);

}  // namespace attnjit::launch
