#pragma once
#include "attnjit/forward.hpp"
#include "codegen/features.hpp"

namespace attnjit::launch {

/// The features' kernel parameters, but for those of a mask over keys: a prepass makes these, and
/// each pass has its own. Refers to `problem`.
codegen::FeatureValues feature_values(const problem::Problem& problem, const ForwardArgs& args);

}  // namespace attnjit::launch
