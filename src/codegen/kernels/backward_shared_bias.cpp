// attn_bwd_dkv and attn_bwd_dq of templates/attnjit/backward/mma/shared_bias_keys.cuh and
// shared_bias_queries.cuh, for every architecture.
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/backward_mma.hpp"
#include "codegen/kernels/dbias_policy.hpp"
#include "codegen/literals.hpp"
#include "codegen/mask_form.hpp"

namespace attnjit::kernel {

constexpr auto fields(const BackwardSharedBiasConfig*) {
  using C = BackwardSharedBiasConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"keys_at_rest", &C::keys_at_rest},
      base::Field{"block_q", &C::block_q}, base::Field{"block_kv", &C::block_kv},
      base::Field{"num_stages", &C::num_stages});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Extent;

Source render(ScoreKernel kernel, const kernel::BackwardSharedBiasConfig& config,
              const BackwardFamily& family, const BackwardTile& tile,
              const TemplateSet& templates) {
  const bool grouped = family.dbias_groups_batch;
  kernel.params = {"BackwardParams", "params"};
  kernel.config_type = "BackwardSharedBiasConfig";
  kernel.config = initialiser(config);
  kernel.more = {{"BiasPlanes", "planes"}, dbias_parameter(grouped)};
  kernel.policies = {"planes", dbias_argument(bias_grad_store(family), grouped)};
  kernel.headers = {"score/bias_grad.cuh"};
  if (grouped) kernel.headers.push_back(kBatchGroupsHeader);
  problem::Family scores = family.scores;
  // Elements of keys at rest are read one by one.
  if (config.keys_at_rest) scores.bias_vectorized = false;
  std::string title =
      fmt::format("{} {} | {}", kernel.entry, describe(family), describe_tile(tile));
  return render_score_kernel(kernel, std::move(title), scores, Pass::kBackward, templates);
}

}  // namespace

kernel::BackwardSharedBiasConfig shared_bias_config(const BackwardFamily& f,
                                                    const BackwardTile& tile, bool keys_at_rest) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .keys_at_rest = keys_at_rest,
          .block_q = tile.block_q,
          .block_kv = tile.block_kv,
          .num_stages = tile.num_stages};
}

Rule why_no_shared_bias(const BackwardFamily& f) {
  const problem::Family& s = f.scores;
  if (s.bias != Extent::kPerPair || f.dbias != Extent::kPerPair || !f.dbias_reduces_planes) {
    return "shared_bias needs a dbias over queries and keys that sums batch elements or heads";
  }
  if (!s.aligned) {
    return "shared_bias needs addresses and strides of all tensors to be multiples of 16 bytes";
  }
  if (const Rule rule = why_no_strips(s)) return rule;
  if (s.mask == Extent::kPerKey && mask_form(s) != MaskForm::kBits) {
    return "shared_bias does not support a mask that is read in place";
  }
  return std::nullopt;
}

DkvFacts facts(const kernel::BackwardSharedBiasConfig& config) {
  return {.block_q = config.block_q,
          .block_kv = config.block_kv,
          .scale_first = config.scale_first,
          .probability_scale = config.probability_scale(),
          .shared_bias = true};
}

Rule why_dkv_unfit(const kernel::BackwardSharedBiasConfig& config, const BackwardTunables& t,
                   const BackwardFamily& f, const Arch& arch) {
  if (const Rule rule = why_no_shared_bias(f)) {
    return fmt::format("dkv: path: {}; use mma or wgmma", *rule);
  }
  if (Rule rule = why_lacking(t.dkv)) return fmt::format("dkv: {}", *rule);
  if (t.dq_method != DqMethod::kKernel || t.dq.path != Path::kSharedBias) {
    return "dq_method: path shared_bias has a kernel of dq; use kernel, with that path";
  }
  if (t.dbias_method != DbiasMethod::kPerBlock) {
    return fmt::format("dbias_method: {} is not for path shared_bias; use per_block",
                       base::word(t.dbias_method));
  }
  if (t.split) return "split: path shared_bias does not split queries; set it to false";
  const Rule rule = why_invalid(config, config.shared_bytes(), arch);
  return rule ? Rule(fmt::format("dkv: {}", *rule)) : std::nullopt;
}

Rule why_dq_unfit(const kernel::BackwardSharedBiasConfig& config, const BackwardTunables& t,
                  const BackwardFamily&, const Arch& arch) {
  if (t.dkv.path != Path::kSharedBias) return "dq: path: shared_bias needs the same path of dkv";
  if (Rule rule = why_lacking(t.dq)) return fmt::format("dq: {}", *rule);
  const Rule rule = why_invalid(config, config.shared_bytes(), arch);
  return rule ? Rule(fmt::format("dq: {}", *rule)) : std::nullopt;
}

Source render_dkv(const kernel::BackwardSharedBiasConfig& config, const BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates) {
  return render({.entry = "attn_bwd_dkv",
                 .header = "backward/mma/shared_bias_keys.cuh",
                 .function = "backward_shared_bias_keys"},
                config, family, tunables.dkv, templates);
}

Source render_dq(const kernel::BackwardSharedBiasConfig& config, const BackwardFamily& family,
                 const BackwardTunables& tunables, const TemplateSet& templates) {
  return render({.entry = "attn_bwd_dq",
                 .header = "backward/mma/shared_bias_queries.cuh",
                 .function = "backward_shared_bias_queries"},
                config, family, tunables.dq, templates);
}

}  // namespace attnjit::codegen
