#pragma once
#include <vector>

#include "codegen/backward_tunables.hpp"
#include "codegen/render.hpp"

namespace attnjit::codegen {

/// The features of a backward kernel, in the order of its parameters. kBand and kLength exclude
/// each other; the last has no parameter. A mask that is the same for all
/// keys of a row is in lse already.
enum class BackwardFeature { kSeqlens, kBias, kByteMask, kBand, kLength };
std::vector<BackwardFeature> backward_features(const problem::BackwardFamily& family);

/// The kernel of dk and dv, which takes BackwardParams, BiasGradParams where `method` has scores
/// pass through it, and the features' parameters.
Source render_backward(const problem::BackwardFamily& family, const kernel::BackwardConfig& config,
                       DbiasMethod method, const TemplateSet& templates);

/// The kernel of dq, which takes BackwardParams and the features' parameters.
Source render_backward_dq(const problem::BackwardFamily& family,
                          const kernel::BackwardConfig& config, const TemplateSet& templates);

/// The kernel of dbias, which takes BackwardParams, BiasPlanes, BiasGradParams and the features'
/// parameters.
Source render_backward_dbias(const problem::BackwardFamily& family,
                             const kernel::BackwardConfig& config, const TemplateSet& templates);

// The small kernels, which take the parameters of their config's header.
Source render_mask_classes(const kernel::MaskClassesConfig& config, const TemplateSet& templates);
Source render_backward_preprocess(const kernel::BackwardPreprocessConfig& config,
                                  const TemplateSet& templates);
Source render_fragment_sum(const kernel::FragmentSumConfig& config, const TemplateSet& templates);
Source render_bias_sum(const kernel::BiasSumConfig& config, const TemplateSet& templates);

}  // namespace attnjit::codegen
