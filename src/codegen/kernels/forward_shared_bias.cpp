// attn_fwd of templates/attnjit/forward/wgmma/shared_bias.cuh, for sm_90a.
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/rows.hpp"
#include "codegen/kernels/score_kernel.hpp"
#include "codegen/literals.hpp"
#include "codegen/mask_form.hpp"

namespace attnjit::kernel {

constexpr auto fields(const ForwardSharedBiasConfig*) {
  using C = ForwardSharedBiasConfig;
  return base::fields_of<C>(base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
                            base::Field{"head_dim_v", &C::head_dim_v},
                            base::Field{"block_kv", &C::block_kv});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {

using problem::Extent;
using problem::Family;

kernel::ForwardSharedBiasConfig forward_shared_bias_config(const Family& f,
                                                           const ForwardTunables& t) {
  return {.dtype = kernel_dtype(f.dtype),
          .head_dim = f.head_dim,
          .head_dim_v = f.head_dim_v,
          .block_kv = t.block_kv};
}

Rule why_no_strips(const Family& f) {
  if (f.bias != Extent::kPerPair) return "shared_bias needs a bias over queries and keys";
  if (f.gqa_ratio > 1) return "shared_bias does not support query heads that share a kv head";
  if (f.packed) return "shared_bias does not support cu_seqlens";
  if (f.bounded_left || f.bounded_right) return "shared_bias does not support a band";
  if (f.score || f.keep) return "shared_bias does not support expressions";
  if (transforms_scores(f)) {
    return "shared_bias does not support scores that are changed by more than an addition";
  }
  if (f.alibi) return "shared_bias does not support slopes";
  if (f.mask == Extent::kPerPair) {
    return "shared_bias does not support a mask over queries and keys";
  }
  return std::nullopt;
}

Rule why_no_shared_bias(const Family& f, const Arch& arch) {
  if (const Rule rule = why_no_wgmma(f, arch)) return rule;
  if (const Rule rule = why_no_strips(f)) return rule;
  if (f.page_size > 0) return "shared_bias does not support block tables";
  if (f.tail_mask) return "shared_bias does not support a mask over the last keys";
  if (f.row_max) return "shared_bias does not support row_max and max_logits";
  return std::nullopt;
}

ForwardFacts facts(const kernel::ForwardSharedBiasConfig& config) {
  return {.block_q = config.block_q,
          .block_kv = config.block_kv,
          .pack_gqa_heads = 1,
          .scale_first = config.scale_first,
          .persistent = true,
          .shared_bias = true};
}

Rule why_unfit(const kernel::ForwardSharedBiasConfig& config, const ForwardTunables& t,
               const Family& f, const Arch& arch) {
  if (const Rule rule = why_no_shared_bias(f, arch)) {
    return fmt::format("path: {}; use mma or wgmma", *rule);
  }
  if (Rule rule = why_lacking(t)) return rule;
  if (t.pack_gqa) return "pack_gqa is true; path shared_bias has rows of one head";
  if (t.block_q != config.block_q) return "block_q must be 64 with path shared_bias";
  return why_invalid(config, config.shared_bytes(), arch);
}

Source render(const kernel::ForwardSharedBiasConfig& config, const Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates) {
  return render_score_kernel(
      {.entry = "attn_fwd",
       .header = "forward/wgmma/shared_bias.cuh",
       .function = "forward_shared_bias",
       .params = {"ForwardSharedBiasParams", "params"},
       .config_type = "ForwardSharedBiasConfig",
       .config = initialiser(config)},
      fmt::format("attn_fwd {} | {}", describe(family), describe_tile(tunables)), family,
      Pass::kForward, templates);
}

}  // namespace attnjit::codegen
