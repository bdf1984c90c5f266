#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "attnjit/backward/mma/config.h"
#include "codegen/arch.hpp"
#include "codegen/source.hpp"
#include "codegen/tunables.hpp"
#include "problem/backward_problem.hpp"

/// The kernels of the gradients of operands of a score expression: attn_bwd_operand for each place
/// where it reads one, or attn_bwd_dkv itself. Another adds up what they write
/// (render_operand_sums()).
namespace attnjit::codegen {

/// The places where a score reads operands with gradients.
struct OperandSites {
  std::vector<expr::GradientSite> list;
  std::optional<std::size_t> in_dkv;  ///< the one that attn_bwd_dkv has sums of

  bool have_kernels() const { return list.size() > (in_dkv ? 1u : 0u); }
};

/// Path single_tile sums up dS for one site beside dq, dk and dv: for one that batch elements
/// share, by which the score has the derivative that it has by s, where no dbias is wanted. Sums of
/// pairs are listed there, also of forms that otherwise take atomics.
OperandSites operand_sites(const problem::BackwardFamily& family, const BackwardTunables& tunables);

/// The policy of backward/mma/operand_site.cuh for a form, of the config named `config`.
std::string site_policy(expr::GradientForm form, const char* config);

/// Of attn_bwd_operand, the same for all sites. It fits every architecture.
kernel::BackwardMmaConfig operand_gradient_config(const problem::BackwardFamily& family,
                                                  const Arch& arch);
/// Takes BackwardParams, OperandGradientParams and the features' parameters.
Source render_operand_gradient(const kernel::BackwardMmaConfig& config,
                               const problem::BackwardFamily& family,
                               const expr::GradientSite& site, const TemplateSet& templates);

/// The list of a line of tiles, of sums of a form.
struct SiteLists {
  int entries = 0;  ///< of the list; 0: sums at their elements, which are 0 at first
  int lines(int q_tiles, int kv_tiles) const;  ///< of a plane
  expr::GradientForm form;
};
SiteLists site_lists(expr::GradientForm form, int block_q, int block_kv);

}  // namespace attnjit::codegen
