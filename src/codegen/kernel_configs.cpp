#include "codegen/kernel_configs.hpp"

#include <algorithm>

#include "codegen/features.hpp"
#include "codegen/kernel_dtype.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Extent;
using problem::Family;

kernel::BackwardConfig backward_config(const BackwardFamily& f, const BackwardTile& tile,
                                       bool adds_dq) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .gqa_ratio = f.scores.gqa_ratio,
          .aligned = f.scores.aligned,
          .scale_first = scales_first(f.scores, Pass::kBackward),
          .adds_dq = adds_dq,
          .block_q = tile.block_q,
          .block_kv = tile.block_kv,
          .num_stages = tile.num_stages,
          .num_warps = tile.num_warps,
          .query_warps = tile.query_warps,
          .min_blocks = tile.min_blocks,
          .late = tile.late,
          .fresh = tile.fresh};
}

// Registers of the warps that load, so that they spill little, and those that multiply nothing
// (ptxas 13.0).
int producer_registers(const Family& f, const ForwardTunables& tunables) {
  if (tunables.block_q == 192) return 32;
  const bool paged = f.page_size > 0;
  // Two warpgroups that multiply have as many beside 56 as beside 48.
  const int own = f.bias != Extent::kPerPair ? 40 : f.head_dim > 128 || paged ? 56 : 48;
  // Places of pages want some more, and a single warpgroup that multiplies leaves them.
  return tunables.block_q == 64 && paged ? std::max(own, 48) : own;
}

kernel::DqOrder dq_order(const BackwardFamily& f, DqMethod method) {
  if (method == DqMethod::kAdd && f.deterministic) return kernel::DqOrder::kKeys;
  return method == DqMethod::kStore ? kernel::DqOrder::kFirst : kernel::DqOrder::kAny;
}

}  // namespace

kernel::ForwardConfig forward_config(const Family& f, const ForwardTunables& tunables) {
  return {.dtype = kernel_dtype(f.dtype),
          .head_dim = f.head_dim,
          .head_dim_v = f.head_dim_v,
          .gqa_ratio = f.gqa_ratio,
          .aligned = f.aligned,
          .scale_first = scales_first(f, Pass::kForward),
          .pack_heads = tunables.pack_heads,
          .block_q = tunables.block_q,
          .block_kv = tunables.block_kv,
          .num_stages = tunables.num_stages,
          .num_warps = tunables.num_warps,
          .min_blocks = tunables.min_blocks,
          .softmax = tunables.softmax};
}

kernel::ForwardWgmmaConfig forward_wgmma_config(const Family& f, const ForwardTunables& tunables) {
  return {.dtype = kernel_dtype(f.dtype),
          .head_dim = f.head_dim,
          .head_dim_v = f.head_dim_v,
          .gqa_ratio = f.gqa_ratio,
          .scale_first = scales_first(f, Pass::kForward),
          .pack_heads = tunables.pack_heads,
          .block_q = tunables.block_q,
          .block_kv = tunables.block_kv,
          .piece_kv = kernel::keys_of_piece(f.page_size, tunables.block_kv),
          .num_stages = tunables.num_stages,
          .producer_registers = producer_registers(f, tunables),
          .row_max = f.row_max,
          .packs_sequences = f.packed,
          // A second text costs such a kernel more than the branches do: 1 to 5 % on an H100.
          .one_edge = f.bias == Extent::kPerPair};
}

std::optional<kernel::MaskPackConfig> mask_pack_config(const Family& family) {
  if (!family.prepares_mask()) return std::nullopt;
  return kernel::MaskPackConfig{.per_pair = family.mask == Extent::kPerPair,
                                .vectorized = family.mask_vectorized,
                                .by_rows = true,
                                .by_keys = false};
}

kernel::MaskPackConfig mask_pack_config(const problem::MaskKey& key) {
  return {.per_pair = key.per_pair,
          .vectorized = key.vectorized,
          .by_rows = true,
          .by_keys = key.by_keys};
}

std::optional<kernel::PackedOrderConfig> packed_order_config(const Family& family,
                                                             const ForwardTunables& tunables) {
  if (!family.packed || tunables.path != Path::kWgmma) return std::nullopt;
  const kernel::ForwardWgmmaConfig forward = forward_wgmma_config(family, tunables);
  return kernel::PackedOrderConfig{.block_q = forward.block_q,
                                   .packed_heads = forward.packed_heads(),
                                   .paged_keys = family.page_size > 0};
}

kernel::ForwardCombineConfig forward_combine_config(const Family& family) {
  return {.dtype = kernel_dtype(family.dtype),
          .head_dim_v = family.head_dim_v,
          .num_warps = 8,
          .row_max = family.row_max};
}

std::optional<kernel::MaxLogitsConfig> max_logits_config(const Family& family) {
  if (!family.row_max) return std::nullopt;
  return kernel::MaxLogitsConfig{.num_warps = 16};
}

kernel::MergeLseConfig merge_lse_config(const problem::MergeKey& key) {
  return {.part_dtype = kernel_dtype(key.part_dtype),
          .dtype = kernel_dtype(key.dtype),
          .head_dim_v = key.head_dim_v,
          .aligned = key.aligned,
          .carry = key.carry};
}

kernel::BackwardConfig dkv_config(const BackwardFamily& f, const BackwardTunables& tunables) {
  return backward_config(f, tunables.dkv, tunables.dq_method == DqMethod::kAdd);
}
kernel::BackwardWgmmaConfig dkv_wgmma_config(const BackwardFamily& f,
                                             const BackwardTunables& tunables) {
  const bool planes = tunables.dq_method == DqMethod::kPlane;
  const int width = std::max(f.scores.head_dim, f.scores.head_dim_v);
  const bool operands = f.scores.mask != Extent::kAbsent || varies_over_keys(f.scores.bias);
  // A walk from place to place takes registers that producers of packed sequences do not have
  // beside wider heads or operands, nor the warp that completes a dbias tile by tile.
  const bool walks = !f.scores.packed || (width <= 64 && !operands);
  const bool shares = !planes && walks && tunables.dbias_method != DbiasMethod::kStore;
  // Registers of those that load, and what they leave to those of dq, so that threads that have
  // keys of 128 columns get 208, and of fewer 200 (ptxas 13.0). Those of dq need more where they
  // complete it.
  const bool wide = width > 96;
  const int of_loads = wide ? (planes ? 24 : 32) : shares && f.scores.packed ? 48 : 40;
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .gqa_ratio = f.scores.gqa_ratio,
          .scale_first = scales_first(f.scores, Pass::kBackward),
          .any_scale = !f.scores.positive_scale,
          .bias_tiles = has_bias_tiles(f.scores),
          .dq_order = dq_order(f, tunables.dq_method),
          .whole_planes = planes,
          .shares_places = shares,
          .block_q = tunables.dkv.block_q,
          .num_stages = tunables.dkv.num_stages,
          .producer_registers = of_loads,
          .dq_registers = (wide ? 96 : 112) - of_loads};
}
kernel::BackwardWideConfig dkv_wide_config(const BackwardFamily& f,
                                           const BackwardTunables& tunables) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .gqa_ratio = f.scores.gqa_ratio,
          .scale_first = scales_first(f.scores, Pass::kBackward),
          .bias_tiles = has_bias_tiles(f.scores),
          .num_stages = tunables.dkv.num_stages,
          .producer_registers = 40};
}
kernel::BackwardConfig dq_config(const BackwardFamily& f, const BackwardTunables& tunables) {
  return backward_config(f, tunables.dq, false);
}
kernel::BackwardDqWgmmaConfig dq_wgmma_config(const BackwardFamily& f,
                                              const BackwardTunables& tunables) {
  kernel::BackwardDqWgmmaConfig config{.dtype = kernel_dtype(f.scores.dtype),
                                       .head_dim = f.scores.head_dim,
                                       .head_dim_v = f.scores.head_dim_v,
                                       .gqa_ratio = f.scores.gqa_ratio,
                                       .scale_first = scales_first(f.scores, Pass::kBackward),
                                       .k_stages = tunables.dq.num_stages,
                                       .v_stages = tunables.dq.num_stages,
                                       .producer_registers = 24};
  // V is used for a shorter time than K.
  if (config.shared_bytes() > config.kMaxSharedBytes) config.v_stages = 1;
  return config;
}
kernel::BackwardConfig dbias_config(const BackwardFamily& f, const BackwardTunables& tunables) {
  return backward_config(f, tunables.dbias, false);
}

std::optional<kernel::MaskPackConfig> mask_pack_config(const BackwardFamily& f,
                                                       const BackwardTunables& tunables) {
  std::optional<kernel::MaskPackConfig> config = mask_pack_config(f.scores);
  if (!config || !config->per_pair) return config;
  // The kernel of dk and dv of path wgmma has keys in the rows of its scores, all others queries.
  config->by_keys = tunables.dkv.path == Path::kWgmma;
  config->by_rows = !config->by_keys || tunables.dq_method == DqMethod::kKernel ||
                    tunables.dbias_method == DbiasMethod::kKernel;
  return config;
}

kernel::BackwardPreprocessConfig preprocess_config(const BackwardFamily& f,
                                                   const BackwardTunables& tunables) {
  const bool row_bias = f.scores.bias == Extent::kPerQuery;
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim_v = f.scores.head_dim_v,
          .aligned = f.scores.aligned,
          .pieces = tunables.dkv.path == Path::kWgmma && !separates_dq(f),
          .dq_columns = tunables.dq_method == DqMethod::kPlane ? f.scores.head_dim : 0,
          .sink = f.scores.sink,
          .sink_dtype = kernel_dtype(f.scores.sink_dtype),
          .row_mask = f.scores.mask == Extent::kPerQuery,
          .row_bias = row_bias,
          .bias_dtype = kernel_dtype(row_bias ? f.scores.bias_dtype : f.scores.dtype),
          .packed = f.scores.packed};
}

kernel::FragmentSumConfig fragment_sum_config(const BackwardFamily& f, int columns, bool stored) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = columns,
          .aligned = f.scores.aligned,
          .packed = f.scores.packed,
          .stored = stored};
}

std::optional<kernel::BiasSumConfig> sink_sum_config(const BackwardFamily& f) {
  if (!f.dsink) return std::nullopt;
  // Rows that belong to no query add 0, so that all of a head's are summed as one sequence.
  return kernel::BiasSumConfig{.dtype = kernel::DType::kFloat32,
                               .parts = kernel::DType::kFloat32,
                               .vectorized = false,
                               .over_queries = true,
                               .packed = false,
                               .groups = false};
}

std::optional<kernel::BiasSumConfig> bias_sum_config(const BackwardFamily& f, DbiasMethod method) {
  if (method == DbiasMethod::kNone || method == DbiasMethod::kStore) return std::nullopt;
  const DType parts = method == DbiasMethod::kParts ? f.scores.dtype : DType::kFloat32;
  return kernel::BiasSumConfig{.dtype = kernel_dtype(f.dbias_dtype),
                               .parts = kernel_dtype(parts),
                               .vectorized = f.dbias_vectorized,
                               .over_queries = f.dbias_scalar,
                               .packed = f.scores.packed && method == DbiasMethod::kRows,
                               .groups = f.dbias_groups_batch && method != DbiasMethod::kAdd &&
                                         method != DbiasMethod::kKernel};
}

}  // namespace attnjit::codegen
