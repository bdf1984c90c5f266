#pragma once
#include "attnjit/forward.hpp"
#include "codegen/features.hpp"

namespace attnjit::launch {

/// Sets the features' kernel parameters, but for those of a mask that a prepass looks at: each pass
/// has its own. `values` refers to `problem` afterwards.
void set_feature_values(const problem::Problem& problem, const ForwardArgs& args,
                        codegen::FeatureValues& values);

}  // namespace attnjit::launch
