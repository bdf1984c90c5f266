#include "codegen/kernel_configs.hpp"

#include <algorithm>

#include "codegen/features.hpp"
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/operand_gradient.hpp"
#include "codegen/mask_form.hpp"

namespace attnjit::codegen {

using problem::BackwardFamily;
using problem::Extent;
using problem::Family;

std::optional<kernel::MaskToBitsConfig> mask_to_bits_config(const Family& family) {
  if (!needs_mask_bits(family)) return std::nullopt;
  return kernel::MaskToBitsConfig{.per_pair = family.mask == Extent::kPerPair,
                                  .vectorized = family.mask_vectorized,
                                  .by_rows = true,
                                  .by_keys = false};
}

kernel::MaskToBitsConfig mask_to_bits_config(const problem::MaskKey& key) {
  return {.per_pair = key.per_pair,
          .vectorized = key.vectorized,
          .by_rows = true,
          .by_keys = key.by_keys};
}

std::optional<kernel::OperandRangesConfig> operand_ranges_config(
    const std::vector<RangedAxis>& axes) {
  if (axes.empty()) return std::nullopt;
  return kernel::OperandRangesConfig{.num_warps = 8};
}

std::optional<kernel::BlockListsConfig> block_lists_config(const Family& family) {
  if (!family.blocks) return std::nullopt;
  return kernel::BlockListsConfig{.num_warps = 4};
}

std::optional<kernel::GatherKeysConfig> gather_keys_config(const Family& family) {
  if (!family.key_indices || family.key_indices.in_place()) return std::nullopt;
  return kernel::GatherKeysConfig{.head_dim = family.head_dim,
                                  .head_dim_v = family.head_dim_v,
                                  .aligned = family.aligned,
                                  .index_bytes = family.key_indices.bytes(),
                                  .num_warps = 4};
}

std::optional<kernel::ScatterKeysConfig> scatter_keys_config(const BackwardFamily& family) {
  const Family& scores = family.scores;
  if (!scores.key_indices) return std::nullopt;
  return kernel::ScatterKeysConfig{.dtype = kernel_dtype(scores.dtype),
                                   .head_dim = scores.head_dim,
                                   .head_dim_v = scores.head_dim_v,
                                   .aligned = scores.aligned,
                                   .num_warps = 8,
                                   .num_keys = 256};
}

std::optional<kernel::ClearCountConfig> clear_count_config(const ForwardFacts& forward,
                                                           bool has_prepass) {
  if (!forward.plans_work || has_prepass) return std::nullopt;
  return kernel::ClearCountConfig{.num_warps = 1};
}

std::optional<kernel::PackedOrderConfig> packed_order_config(const Family& family,
                                                             const ForwardFacts& forward) {
  if (!family.packed || !forward.persistent) return std::nullopt;
  return kernel::PackedOrderConfig{.block_q = forward.block_q,
                                   .pack_gqa_heads = forward.pack_gqa_heads,
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

kernel::OperandSumConfig operand_sum_config() { return {.num_warps = 8, .num_elements = 512}; }

kernel::MergeLseConfig merge_lse_config(const problem::MergeKey& key) {
  return {.part_dtype = kernel_dtype(key.part_dtype),
          .dtype = kernel_dtype(key.dtype),
          .head_dim_v = key.head_dim_v,
          .aligned = key.aligned,
          .carry = key.carry};
}

std::optional<kernel::MaskToBitsConfig> mask_to_bits_config(const BackwardFamily& f,
                                                            const BackwardTunables& tunables,
                                                            const DkvFacts& dkv) {
  std::optional<kernel::MaskToBitsConfig> config = mask_to_bits_config(f.scores);
  if (!config || !config->per_pair) return config;
  config->by_keys = dkv.keys_in_rows;
  config->by_rows = !config->by_keys || tunables.dq_method == DqMethod::kKernel ||
                    tunables.dbias_method == DbiasMethod::kKernel ||
                    operand_sites(f, tunables).have_kernels();
  return config;
}

kernel::BackwardPreprocessConfig preprocess_config(const BackwardFamily& f,
                                                   const BackwardTunables& tunables,
                                                   const DkvFacts& dkv) {
  const bool row_bias = f.scores.bias == Extent::kPerQuery;
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim_v = f.scores.head_dim_v,
          .aligned = f.scores.aligned,
          .bf16x3 = dkv.whole_tiles,
          .dq_columns = tunables.dq_method == DqMethod::kOwnKvHead && !dkv.single_tile
                            ? f.scores.head_dim
                            : 0,
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
                               .partials = kernel::DType::kFloat32,
                               .vectorized = false,
                               .over_queries = true,
                               .packed = false,
                               .groups = false};
}

std::optional<kernel::BiasSumConfig> bias_sum_config(const BackwardFamily& f, DbiasMethod method) {
  if (method == DbiasMethod::kNone || method == DbiasMethod::kStore) return std::nullopt;
  const DType partials = method == DbiasMethod::kPerPlane ? f.scores.dtype : DType::kFloat32;
  return kernel::BiasSumConfig{.dtype = kernel_dtype(f.dbias_dtype),
                               .partials = kernel_dtype(partials),
                               .vectorized = f.dbias_vectorized,
                               .over_queries = f.dbias_scalar,
                               .packed = f.scores.packed && method == DbiasMethod::kRows,
                               .groups = f.dbias_groups_batch && method != DbiasMethod::kAdd &&
                                         method != DbiasMethod::kKernel &&
                                         method != DbiasMethod::kPerBlock};
}

}  // namespace attnjit::codegen
