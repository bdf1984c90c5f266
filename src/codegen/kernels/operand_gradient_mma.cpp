// attn_bwd_operand of templates/attnjit/backward/mma, for every architecture.
#include <algorithm>
#include <utility>

#include "attnjit/error.hpp"
#include "codegen/expression_code.hpp"
#include "codegen/kernels/backward_mma.hpp"
#include "codegen/kernels/operand_gradient.hpp"
#include "expr/derivative.hpp"

namespace attnjit::codegen {
namespace {

using expr::GradientForm;
using problem::BackwardFamily;

// The places where the score of `f` reads operands with gradients.
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

// Whether the derivative by the read is `slope`, that by s, and the element the same for all batch
// elements.
bool sums_ds(const expr::GradientSite& site, const expr::Expr& slope) {
  const bool is_slope =
      site.factor.nodes() == slope.nodes() && site.factor.operands() == slope.operands();
  return is_slope && site.form != GradientForm::kScale && !site.per_batch &&
         (expr::uses(site.read) & expr::kUsesScore) == 0;
}

}  // namespace

OperandSites operand_sites(const BackwardFamily& f, const BackwardTunables& tunables) {
  OperandSites all{.list = gradient_sites(f), .in_dkv = std::nullopt};
  if (all.list.empty() || tunables.dkv.path != Path::kSingleTile ||
      tunables.dbias_method != DbiasMethod::kNone) {
    return all;
  }
  const expr::Expr slope = expr::derivative_by_score(f.scores.score->expression);
  const auto site = std::ranges::find_if(
      all.list, [&](const expr::GradientSite& each) { return sums_ds(each, slope); });
  if (site == all.list.end()) return all;
  all.in_dkv = static_cast<std::size_t>(site - all.list.begin());
  if (site->form == GradientForm::kPairs || site->form == GradientForm::kAtomics) {
    site->form = GradientForm::kIndexTable;
  }
  return all;
}

std::string site_policy(GradientForm form, const char* config) {
  const auto listed = [config](const char* entries) {
    return fmt::format("ListedSums<{}, ListEntries::{}, SiteFormula>(site, score)", config,
                       entries);
  };
  switch (form) {
    case GradientForm::kBlockSums:
      return listed("kColumns");
    case GradientForm::kScale:
      return fmt::format("ScaleSums<{}, SiteFormula>(site, score)", config);
    case GradientForm::kRows:
      return listed("kRows");
    case GradientForm::kKeys:
      return listed("kKeys");
    case GradientForm::kDiagonals:
      return listed("kDiagonals");
    case GradientForm::kIndexTable:
      return listed("kPairs");
    case GradientForm::kPairs:
      return fmt::format("PairSums<{}>(site)", config);
    case GradientForm::kAtomics:
      return fmt::format("AddedPairs<{}, SiteFormula>(site, score)", config);
  }
  throw Error(ErrorKind::kInternal, "a form of gradients without a policy");
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
                     .policies = {site_policy(site.form, "kConfig")},
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

SiteLists site_lists(GradientForm form, int block_q, int block_kv) {
  SiteLists lists{.form = form};
  switch (form) {
    case GradientForm::kBlockSums:
    case GradientForm::kScale:
    case GradientForm::kKeys:
      lists.entries = block_kv;
      break;
    case GradientForm::kRows:
      lists.entries = block_q;
      break;
    case GradientForm::kDiagonals:
      lists.entries = kernel::round_up(block_q + block_kv, kernel::kListChunk);
      break;
    case GradientForm::kIndexTable:
      lists.entries = block_q * block_kv;
      break;
    case GradientForm::kPairs:
    case GradientForm::kAtomics:
      break;
  }
  return lists;
}

}  // namespace attnjit::codegen
