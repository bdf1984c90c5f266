// attn_bwd_dkv of templates/attnjit/backward/mma/single_tile.cuh, for every architecture.
#include "codegen/expression_code.hpp"
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/backward_mma.hpp"
#include "codegen/kernels/dbias_policy.hpp"
#include "codegen/kernels/operand_gradient.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const BackwardSingleTileConfig*) {
  using C = BackwardSingleTileConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"aligned", &C::aligned},
      base::Field{"scale_first", &C::scale_first}, base::Field{"block_q", &C::block_q},
      base::Field{"block_kv", &C::block_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"min_blocks", &C::min_blocks}, base::Field{"sums", &C::sums},
      base::Field{"reads_out", &C::reads_out});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {
namespace {

using kernel::PlaneSums;
using problem::BackwardFamily;

PlaneSums plane_sums(DbiasMethod method, const OperandSites& operands) {
  switch (method) {
    case DbiasMethod::kStore:
      return PlaneSums::kStoreDbias;
    case DbiasMethod::kPerBlock:
      return PlaneSums::kDbias;
    default:
      return operands.in_dkv ? PlaneSums::kOperand : PlaneSums::kNone;
  }
}

// Whether batch elements share the planes in groups that the kernel walks over: of dbias, or of a
// bias that has none.
bool walks_groups(const BackwardFamily& f, DbiasMethod method) {
  if (method == DbiasMethod::kPerBlock) return f.dbias_groups_batch;
  return method != DbiasMethod::kStore && f.scores.bias_groups_batch;
}

// Whether rows depend on more than lse, out and dout, or have sums of their own, or other kernels
// read them: the preprocess kernel knows all of it.
bool needs_prepared_rows(const BackwardFamily& f, const OperandSites& operands) {
  return f.scores.sink || f.scores.mask == problem::Extent::kPerQuery ||
         f.scores.bias == problem::Extent::kPerQuery || operands.have_kernels();
}

// The parameter of the results of dS beside dq, dk and dv, their policy, and what these need.
void add_sums(PlaneSums sums, const BackwardFamily& f, const BackwardTunables& t,
              ScoreKernel& kernel) {
  if (sums == PlaneSums::kOperand) {
    const OperandSites operands = operand_sites(f, t);
    const expr::GradientSite& site = operands.list[*operands.in_dkv];
    kernel.more.push_back({"OperandGradientParams", "site"});
    kernel.policies.push_back(site_policy(site.form, "kConfig.mma()"));
    kernel.headers.push_back("backward/mma/operand_site.cuh");
    kernel.formulas = site_formula(*f.scores.score, site.read, std::nullopt);
    return;
  }
  const bool grouped = walks_groups(f, t.dbias_method);
  const std::string policy = sums == PlaneSums::kNone ? "BiasGrad" : bias_grad_store(f);
  kernel.more.push_back(dbias_parameter(grouped));
  kernel.policies.push_back(dbias_argument(policy, grouped));
  kernel.headers.push_back("score/bias_grad.cuh");
  if (grouped) kernel.headers.push_back(kBatchGroupsHeader);
}

}  // namespace

kernel::BackwardSingleTileConfig backward_single_tile_config(const BackwardFamily& f,
                                                             const BackwardTunables& t) {
  const OperandSites operands = operand_sites(f, t);
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .aligned = f.scores.aligned,
          .scale_first = scales_first(f.scores),
          .block_q = t.dkv.block_q,
          .block_kv = t.dkv.block_kv,
          .num_stages = t.dkv.num_stages,
          .min_blocks = t.dkv.min_blocks,
          .sums = plane_sums(t.dbias_method, operands),
          .reads_out = !needs_prepared_rows(f, operands)};
}

Rule why_no_single_tile(const BackwardFamily& f) {
  if (Rule rule = why_no_single_tile(f.scores)) return rule;
  if (f.scores.gqa_ratio > 1) {
    return "single_tile does not support query heads that share a kv head in a backward";
  }
  if (default_dbias_method(f) == DbiasMethod::kColumns) {
    return "single_tile does not support a dbias per key";
  }
  return std::nullopt;
}

DkvFacts facts(const kernel::BackwardSingleTileConfig& config) {
  return {.block_q = config.block_q,
          .block_kv = config.block_kv,
          .scale_first = config.scale_first,
          .probability_scale = config.probability_scale(),
          .single_tile = true,
          .reads_out = config.reads_out};
}

Rule why_dkv_unfit(const kernel::BackwardSingleTileConfig& config, const BackwardTunables& t,
                   const BackwardFamily& f, const Arch& arch) {
  if (const Rule rule = why_no_single_tile(f)) {
    return fmt::format("dkv: path: {}; use mma or wgmma", *rule);
  }
  if (Rule rule = why_lacking(t.dkv)) return fmt::format("dkv: {}", *rule);
  if (t.dq_method != DqMethod::kOwnKvHead) {
    return fmt::format("dq_method: {} is not for path single_tile; use own_kv_head",
                       base::word(t.dq_method));
  }
  if (t.split) return "split: path single_tile does not split queries; set it to false";
  if (t.dbias_method == DbiasMethod::kAdd || t.dbias_method == DbiasMethod::kKernel) {
    return fmt::format("dbias_method: {} is not for path single_tile; use per_block",
                       base::word(t.dbias_method));
  }
  const Rule rule = why_invalid(config, config.shared_bytes(), arch);
  return rule ? Rule(fmt::format("dkv: {}", *rule)) : std::nullopt;
}

Source render_dkv(const kernel::BackwardSingleTileConfig& config, const BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates) {
  ScoreKernel kernel{.entry = "attn_bwd_dkv",
                     .header = "backward/mma/single_tile.cuh",
                     .function = "backward_single_tile",
                     .params = {"BackwardSingleTileParams", "params"},
                     .config_type = "BackwardSingleTileConfig",
                     .config = initialiser(config),
                     .more = {{"BiasPlanes", "planes"}},
                     .policies = {"planes"}};
  add_sums(config.sums, family, tunables, kernel);
  return render_score_kernel(
      kernel, fmt::format("attn_bwd_dkv {} | {}", describe(family), describe_tile(tunables.dkv)),
      family.scores, Pass::kBackward, templates);
}

}  // namespace attnjit::codegen
