// attn_bwd_dkv of templates/attnjit/backward/mma/single_tile.cuh, for every architecture.
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/backward_mma.hpp"
#include "codegen/kernels/dbias_policy.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const BackwardSingleTileConfig*) {
  using C = BackwardSingleTileConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"aligned", &C::aligned},
      base::Field{"scale_first", &C::scale_first}, base::Field{"block_q", &C::block_q},
      base::Field{"block_kv", &C::block_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"min_blocks", &C::min_blocks}, base::Field{"dbias", &C::dbias},
      base::Field{"reads_out", &C::reads_out});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {
namespace {

using kernel::PlaneDbias;
using problem::BackwardFamily;

PlaneDbias plane_dbias(DbiasMethod method) {
  switch (method) {
    case DbiasMethod::kStore:
      return PlaneDbias::kStore;
    case DbiasMethod::kPerBlock:
      return PlaneDbias::kSum;
    default:
      return PlaneDbias::kNone;
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
bool needs_prepared_rows(const BackwardFamily& f) {
  return f.scores.sink || f.scores.mask == problem::Extent::kPerQuery ||
         f.scores.bias == problem::Extent::kPerQuery || f.gradient_operands.any();
}

}  // namespace

kernel::BackwardSingleTileConfig backward_single_tile_config(const BackwardFamily& f,
                                                             const BackwardTunables& t) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .aligned = f.scores.aligned,
          .scale_first = scales_first(f.scores),
          .block_q = t.dkv.block_q,
          .block_kv = t.dkv.block_kv,
          .num_stages = t.dkv.num_stages,
          .min_blocks = t.dkv.min_blocks,
          .dbias = plane_dbias(t.dbias_method),
          .reads_out = !needs_prepared_rows(f)};
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
  const bool grouped = walks_groups(family, tunables.dbias_method);
  const std::string policy =
      config.dbias == PlaneDbias::kNone ? "BiasGrad" : bias_grad_store(family);
  ScoreKernel kernel{.entry = "attn_bwd_dkv",
                     .header = "backward/mma/single_tile.cuh",
                     .function = "backward_single_tile",
                     .params = {"BackwardSingleTileParams", "params"},
                     .config_type = "BackwardSingleTileConfig",
                     .config = initialiser(config),
                     .more = {{"BiasPlanes", "planes"}, dbias_parameter(grouped)},
                     .policies = {"planes", dbias_argument(policy, grouped)},
                     .headers = {"score/bias_grad.cuh"}};
  if (grouped) kernel.headers.push_back(kBatchGroupsHeader);
  return render_score_kernel(
      kernel, fmt::format("attn_bwd_dkv {} | {}", describe(family), describe_tile(tunables.dkv)),
      family.scores, Pass::kBackward, templates);
}

}  // namespace attnjit::codegen
