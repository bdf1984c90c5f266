#pragma once
#include <string>

#include "codegen/kernels/rows.hpp"
#include "codegen/kernels/score_kernel.hpp"

/// Parts common to the backward kernels of templates/attnjit/backward/mma: dk and dv, dq, and
/// dbias.
namespace attnjit::codegen {

kernel::BackwardMmaConfig backward_mma_config(const problem::BackwardFamily& family,
                                              const BackwardTile& tile, bool adds_dq);

/// The rule that `tile` breaks in the kernel of `what`, such as "dkv".
Rule why_tile_unfit(const char* what, const kernel::BackwardMmaConfig& config, int shared_bytes,
                    const Arch& arch);

/// `kernel` without its config and parameters, which are set here.
Source render_backward_mma(ScoreKernel kernel, const kernel::BackwardMmaConfig& config,
                           const problem::BackwardFamily& family, const BackwardTile& tile,
                           const TemplateSet& templates);

/// The policy that stores dS in a dbias.
std::string bias_grad_store(const problem::BackwardFamily& family);

}  // namespace attnjit::codegen
