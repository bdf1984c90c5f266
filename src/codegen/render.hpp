#pragma once
#include "codegen/kernel_configs.hpp"
#include "codegen/source.hpp"

namespace attnjit::codegen {

/// The forward kernel, which takes ForwardParams, or ForwardWgmmaParams by its path, and the
/// parameters of features(family, kForward).
Source render_forward(const problem::Family& family, const ForwardTunables& tunables,
                      const TemplateSet& templates);

// Kernels with one parameter, the struct that is called as their config.
Source render_mask_pack(const kernel::MaskPackConfig& config, const TemplateSet& templates);
Source render_packed_order(const kernel::PackedOrderConfig& config, const TemplateSet& templates);
Source render_forward_combine(const kernel::ForwardCombineConfig& config,
                              const TemplateSet& templates);
Source render_max_logits(const kernel::MaxLogitsConfig& config, const TemplateSet& templates);
Source render_merge_lse(const kernel::MergeLseConfig& config, const TemplateSet& templates);

/// The kernel of dk and dv, which takes BackwardParams, BiasGradParams where the method of dbias
/// has scores pass through it, and the parameters of features(family.scores, kBackward).
Source render_backward_dkv(const problem::BackwardFamily& family, const BackwardTunables& tunables,
                           const TemplateSet& templates);

/// The kernel of dq, which takes BackwardParams and the features' parameters.
Source render_backward_dq(const problem::BackwardFamily& family, const BackwardTunables& tunables,
                          const TemplateSet& templates);

/// The kernel of dbias, which takes BackwardParams, BiasPlanes, BiasGradParams and the features'
/// parameters.
Source render_backward_dbias(const problem::BackwardFamily& family,
                             const BackwardTunables& tunables, const TemplateSet& templates);

// Kernels with one parameter again.
Source render_backward_preprocess(const kernel::BackwardPreprocessConfig& config,
                                  const TemplateSet& templates);
Source render_fragment_sum(const kernel::FragmentSumConfig& config, const TemplateSet& templates);
Source render_bias_sum(const kernel::BiasSumConfig& config, const TemplateSet& templates);

/// Whether scores pass through the kernel of dk and dv on their way to dbias.
bool dbias_in_dkv(DbiasMethod method);

}  // namespace attnjit::codegen
