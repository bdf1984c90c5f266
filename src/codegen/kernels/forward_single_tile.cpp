// attn_fwd of templates/attnjit/forward/mma/single_tile.cuh, for every architecture.
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/rows.hpp"
#include "codegen/kernels/score_kernel.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const ForwardSingleTileConfig*) {
  using C = ForwardSingleTileConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"aligned", &C::aligned}, base::Field{"scale_first", &C::scale_first},
      base::Field{"block_q", &C::block_q}, base::Field{"block_kv", &C::block_kv},
      base::Field{"min_blocks", &C::min_blocks});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {

using problem::Family;

kernel::ForwardSingleTileConfig forward_single_tile_config(const Family& f,
                                                           const ForwardTunables& t) {
  return {.dtype = kernel_dtype(f.dtype),
          .head_dim = f.head_dim,
          .head_dim_v = f.head_dim_v,
          .gqa_ratio = f.gqa_ratio,
          .aligned = f.aligned,
          .scale_first = scales_first(f),
          .block_q = t.block_q,
          .block_kv = t.block_kv,
          .min_blocks = t.min_blocks};
}

Rule why_no_single_tile(const Family& f) {
  if (f.packed) return "single_tile does not support cu_seqlens";
  if (f.page_size > 0) return "single_tile does not support block tables";
  if (f.key_indices.in_place()) return "single_tile does not read selected keys in place";
  if (f.tail_mask) return "single_tile does not support a mask over the last keys";
  if (f.row_max) return "single_tile does not support row_max and max_logits";
  return std::nullopt;
}

ForwardFacts facts(const kernel::ForwardSingleTileConfig& config) {
  return {.block_q = config.block_q,
          .block_kv = config.block_kv,
          .pack_gqa_heads = 1,
          .scale_first = config.scale_first,
          .single_tile = true};
}

Rule why_unfit(const kernel::ForwardSingleTileConfig& config, const ForwardTunables& t,
               const Family& f, const Arch& arch) {
  if (const Rule rule = why_no_single_tile(f)) {
    return fmt::format("path: {}; use mma or wgmma", *rule);
  }
  if (Rule rule = why_lacking(t)) return rule;
  if (t.pack_gqa) return "pack_gqa is true; path single_tile has rows of one head";
  return why_invalid(config, config.shared_bytes(), arch);
}

Source render(const kernel::ForwardSingleTileConfig& config, const Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates) {
  return render_score_kernel(
      {.entry = "attn_fwd",
       .header = "forward/mma/single_tile.cuh",
       .function = "forward_single_tile",
       .params = {"ForwardSingleTileParams", "params"},
       .config_type = "ForwardSingleTileConfig",
       .config = initialiser(config)},
      fmt::format("attn_fwd {} | {}", describe(family), describe_tile(tunables)), family,
      Pass::kForward, templates);
}

}  // namespace attnjit::codegen
