// attn_bwd_dkv of templates/attnjit/backward/dkv_wgmma, for sm_90a and heads of up to 128 columns.
#include <algorithm>

#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/backward_wgmma.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const DkvWgmmaConfig*) {
  using C = DkvWgmmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"any_scale", &C::any_scale},
      base::Field{"bias_tiles", &C::bias_tiles}, base::Field{"dq_order", &C::dq_order},
      base::Field{"owns_kv_head", &C::owns_kv_head}, base::Field{"shares_work", &C::shares_work},
      base::Field{"key_parts", &C::key_parts}, base::Field{"block_q", &C::block_q},
      base::Field{"num_stages", &C::num_stages},
      base::Field{"producer_registers", &C::producer_registers},
      base::Field{"dq_registers", &C::dq_registers});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Extent;

kernel::DqOrder dq_order(const BackwardFamily& f, DqMethod method) {
  if (method == DqMethod::kAdd && f.deterministic) return kernel::DqOrder::kKeys;
  return method == DqMethod::kFirstStores ? kernel::DqOrder::kFirstStores : kernel::DqOrder::kAny;
}

Rule why_dq_method_unfit(const BackwardTunables& t, const BackwardFamily& f) {
  switch (t.dq_method) {
    case DqMethod::kAdd:
      break;
    case DqMethod::kKernel:
      return "dq_method must be add, first_stores or own_kv_head where dkv has path wgmma";
    case DqMethod::kFirstStores:
      if (const Rule rule = why_no_first_keys(f.scores)) {
        return fmt::format("dq_method: first_stores {}; use add", *rule);
      }
      if (f.deterministic) return "dq_method: first_stores is not deterministic; use add";
      break;
    case DqMethod::kOwnKvHead:
      if (f.scores.packed) return "dq_method: own_kv_head does not support cu_seqlens; use add";
      if (t.split) return "split must be false where dq_method is own_kv_head";
      if (stores_dbias(t.dbias_method)) {
        return "dq_method: own_kv_head does not support a dbias per query and key; use add";
      }
      break;
  }
  return std::nullopt;
}

// Whether a keep expression reads by blocks of 64 keys, so that a tile often keeps those of one
// warpgroup alone. Of two operands the warps that walk would spill 138 to 230 bytes.
bool has_narrow_blocks(const problem::Family& f) {
  const std::int64_t keys = f.keep && f.keep->dtypes.size() == 1 ? f.keep->blocks.keys : 0;
  return keys % 64 == 0 && keys % 128 != 0;
}

}  // namespace

kernel::DkvWgmmaConfig dkv_wgmma_config(const BackwardFamily& f, const BackwardTunables& t) {
  const bool planes = t.dq_method == DqMethod::kOwnKvHead;
  const int width = std::max(f.scores.head_dim, f.scores.head_dim_v);
  const bool operands = f.scores.mask != Extent::kAbsent || varies_over_keys(f.scores.bias);
  // A walk from place to place takes registers that producers of packed sequences do not have
  // beside wider heads or operands, nor the warp that completes a dbias tile by tile.
  const bool walks = !f.scores.packed || (width <= 64 && !operands);
  const bool shares = !planes && walks && t.dbias_method != DbiasMethod::kStore;
  const bool visits_all = planes || dq_order(f, t.dq_method) != kernel::DqOrder::kAny;
  const bool parts =
      !visits_all && t.dbias_method == DbiasMethod::kNone && has_narrow_blocks(f.scores);
  // Registers of those that load, and what they leave to those of dq, so that threads that have
  // keys of 128 columns get 208, and of fewer 200 (ptxas 13.0). Those of dq need more where they
  // complete it.
  const bool wide = width > 96;
  const int of_loads = wide ? (planes ? 24 : 32) : shares && f.scores.packed ? 48 : 40;
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .gqa_ratio = f.scores.gqa_ratio,
          .scale_first = scales_first(f.scores),
          .any_scale = !f.scores.positive_scale,
          .bias_tiles = has_bias_tiles(f.scores),
          .dq_order = dq_order(f, t.dq_method),
          .owns_kv_head = planes,
          .shares_work = shares,
          .key_parts = parts ? 2 : 1,
          .block_q = t.dkv.block_q,
          .num_stages = t.dkv.num_stages,
          .producer_registers = of_loads,
          .dq_registers = (wide ? 96 : 112) - of_loads};
}

DkvFacts facts(const kernel::DkvWgmmaConfig& config) {
  return {.block_q = config.block_q,
          .block_kv = config.block_kv,
          .scale_first = config.scale_first,
          .probability_scale = config.probability_scale(),
          .keys_in_rows = true,
          .whole_tiles = true,
          .persistent = config.shares_work,
          .takes_orders = true,
          .splits_last = config.splits_last(),
          .dq_order = config.dq_order};
}

Rule why_dkv_unfit(const kernel::DkvWgmmaConfig& config, const BackwardTunables& t,
                   const BackwardFamily& f, const Arch& arch) {
  if (const Rule rule = why_no_wgmma(f, arch)) return fmt::format("dkv: path: {}; use mma", *rule);
  if (t.dbias_method == DbiasMethod::kStore) {
    if (const Rule rule = why_no_stored_tiles(f)) {
      return fmt::format("dbias_method: {}; use per_plane", *rule);
    }
  }
  if (Rule rule = why_dq_method_unfit(t, f)) return rule;
  return why_tile_unfit("dkv", t.dkv, config, arch);
}

Source render_dkv(const kernel::DkvWgmmaConfig& config, const BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates) {
  return render_dkv_wgmma({.header = "backward/dkv_wgmma/kernel.cuh",
                           .function = "backward_dkv_wgmma",
                           .config_type = "DkvWgmmaConfig",
                           .config = initialiser(config)},
                          family, tunables, templates);
}

}  // namespace attnjit::codegen
