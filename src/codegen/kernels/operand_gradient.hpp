#pragma once
#include <vector>

#include "attnjit/backward/mma/config.h"
#include "codegen/arch.hpp"
#include "codegen/source.hpp"
#include "problem/backward_problem.hpp"

/// The kernels of the gradients of operands of a score expression, attn_bwd_operand: one for each
/// place where it reads one. Another adds up what they write (render_operand_sums()).
namespace attnjit::codegen {

/// The places where the score of `family` reads operands with gradients.
std::vector<expr::GradientSite> gradient_sites(const problem::BackwardFamily& family);

/// Of attn_bwd_operand, the same for all sites. It fits every architecture.
kernel::BackwardMmaConfig operand_gradient_config(const problem::BackwardFamily& family,
                                                  const Arch& arch);
/// Takes BackwardParams, OperandGradientParams and the features' parameters.
Source render_operand_gradient(const kernel::BackwardMmaConfig& config,
                               const problem::BackwardFamily& family,
                               const expr::GradientSite& site, const TemplateSet& templates);

/// The list that attn_bwd_operand writes of a line of tiles.
struct SiteLists {
  int entries = 0;  ///< of the list; 0: sums at their elements, which are 0 at first
  int lines(int q_tiles, int kv_tiles) const;  ///< of a plane
  expr::GradientForm form;
};
SiteLists site_lists(const expr::GradientSite& site, const kernel::BackwardMmaConfig& config);

}  // namespace attnjit::codegen
