// attn_bwd_operand of templates/attnjit/backward/mma, for every architecture.
#include <algorithm>
#include <utility>

#include "attnjit/error.hpp"
#include "codegen/expression_code.hpp"
#include "codegen/kernels/backward_mma.hpp"
#include "codegen/kernels/operand_gradient.hpp"

namespace attnjit::codegen {
namespace {

using expr::GradientForm;
using problem::BackwardFamily;

// The policy of score/operand_site.cuh.
std::string policy(GradientForm form) {
  const auto listed = [](const char* entries) {
    return fmt::format("ListedSums<kConfig, ListEntries::{}, SiteFormula>(site, score)", entries);
  };
  switch (form) {
    case GradientForm::kBlockSums:
      return listed("kColumns");
    case GradientForm::kScale:
      return "ScaleSums<kConfig, SiteFormula>(site, score)";
    case GradientForm::kRows:
      return listed("kRows");
    case GradientForm::kKeys:
      return listed("kKeys");
    case GradientForm::kDiagonals:
      return listed("kDiagonals");
    case GradientForm::kIndexTable:
      return listed("kPairs");
    case GradientForm::kPairs:
      return "PairSums<kConfig>(site)";
    case GradientForm::kAtomics:
      return "AddedPairs<kConfig, SiteFormula>(site, score)";
  }
  throw Error(ErrorKind::kInternal, "a form of gradients without a policy");
}

}  // namespace

std::vector<expr::GradientSite> gradient_sites(const BackwardFamily& f) {
  if (f.gradient_operands.of_score() == 0) return {};
  const expr::Lengths lengths = f.scores.packed    ? expr::Lengths::kPacked
                                : f.scores.seqlens ? expr::Lengths::kOwn
                                                   : expr::Lengths::kShared;
  std::vector<expr::GradientSite> sites =
      expr::gradient_sites(f.scores.score->expression, f.gradient_operands.of_score(), lengths);
  // A dq of fp16 has lost its smallest terms.
  for (expr::GradientSite& site : sites) {
    if (site.form == GradientForm::kScale && f.scores.dtype != DType::kBFloat16) {
      site.form = GradientForm::kBlockSums;
    }
  }
  return sites;
}

constexpr BackwardTile square_tile(int block, int num_warps, int query_warps, int min_blocks) {
  return {.block_q = block,
          .block_kv = block,
          .num_stages = 1,
          .num_warps = num_warps,
          .query_warps = query_warps,
          .min_blocks = min_blocks};
}

// Square tiles, so that diagonals go through their corners. Of 64 by 64 with 4 warps an SM holds
// two thread blocks and more: with 128 columns they take 6.16 ms where one of 8 warps and two
// stages takes 7.07, one of 128 by 128 6.02 and three with fewer registers 6.11; with 64
// columns 4.10, 4.53, 4.24 and 4.17 (a whole backward with a relative table, 8192 rows, H100,
// 2026-11-27).
kernel::BackwardMmaConfig operand_gradient_config(const BackwardFamily& f, const Arch& arch) {
  const bool wide = std::max(f.scores.head_dim, f.scores.head_dim_v) > 128;
  const BackwardTile tile = wide ? square_tile(64, 8, 4, 1) : square_tile(64, 4, 2, 2);
  const kernel::BackwardMmaConfig config = backward_mma_config(f, tile, false);
  const bool fits = config.operand_shared_bytes() <= arch.shared_bytes_per_block;
  return fits ? config : backward_mma_config(f, square_tile(32, 2, 2, 1), false);
}

Source render_operand_gradient(const kernel::BackwardMmaConfig& config,
                               const BackwardFamily& family, const expr::GradientSite& site,
                               const TemplateSet& templates) {
  std::optional<expr::ScoreScale> scale;
  if (site.form == GradientForm::kScale) {
    scale = expr::scale_of(family.scores.score->expression, site.factor);
  }
  ScoreKernel kernel{.entry = "attn_bwd_operand",
                     .header = "backward/mma/operand_gradient.cuh",
                     .function = "backward_operand_gradient",
                     .more = {{"OperandGradientParams", "site"}},
                     .policies = {policy(site.form)},
                     .formulas = site_formula(*family.scores.score, site.read, scale),
                     .slope = &site.factor};
  const BackwardTile tile =
      square_tile(config.block_q, config.num_warps, config.query_warps, config.min_blocks);
  return render_backward_mma(std::move(kernel), config, family, tile, templates);
}

int SiteLists::lines(int q_tiles, int kv_tiles) const {
  switch (form) {
    case GradientForm::kKeys:
      return kv_tiles;
    case GradientForm::kDiagonals:
      return q_tiles + kv_tiles - 1;
    case GradientForm::kIndexTable:
    case GradientForm::kPairs:
      return q_tiles * kv_tiles;
    default:
      return q_tiles;
  }
}

SiteLists site_lists(const expr::GradientSite& site, const kernel::BackwardMmaConfig& config) {
  SiteLists lists{.form = site.form};
  switch (site.form) {
    case GradientForm::kBlockSums:
    case GradientForm::kScale:
    case GradientForm::kKeys:
      lists.entries = config.block_kv;
      break;
    case GradientForm::kRows:
      lists.entries = config.block_q;
      break;
    case GradientForm::kDiagonals:
      lists.entries = config.block_q + config.block_kv;
      break;
    case GradientForm::kIndexTable:
      lists.entries = config.block_q * config.block_kv;
      break;
    case GradientForm::kPairs:
    case GradientForm::kAtomics:
      break;
  }
  return lists;
}

}  // namespace attnjit::codegen
