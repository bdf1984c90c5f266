#pragma once
#include "attnjit/backward/bias_sum_config.h"
#include "attnjit/backward/fragment_sum_config.h"
#include "attnjit/backward/operand_sum_config.h"
#include "attnjit/backward/preprocess_config.h"
#include "attnjit/backward/scatter_keys_config.h"
#include "attnjit/forward/combine_config.h"
#include "attnjit/forward/max_logits_config.h"
#include "attnjit/forward/merge_lse_config.h"
#include "attnjit/prepass/block_lists_config.h"
#include "attnjit/prepass/clear_count_config.h"
#include "attnjit/prepass/gather_keys_config.h"
#include "attnjit/prepass/mask_to_bits_config.h"
#include "attnjit/prepass/operand_ranges_config.h"
#include "attnjit/prepass/packed_order_config.h"
#include "base/fields.hpp"

/// The members of the configs of the kernels beside the main ones, which stubs spell out. Templates
/// include nothing of the host.
namespace attnjit::kernel {

constexpr auto fields(const MaskToBitsConfig*) {
  using C = MaskToBitsConfig;
  return base::fields_of<C>(
      base::Field{"per_pair", &C::per_pair}, base::Field{"vectorized", &C::vectorized},
      base::Field{"by_rows", &C::by_rows}, base::Field{"by_keys", &C::by_keys});
}

constexpr auto fields(const OperandRangesConfig*) {
  using C = OperandRangesConfig;
  return base::fields_of<C>(base::Field{"num_warps", &C::num_warps});
}

constexpr auto fields(const BlockListsConfig*) {
  using C = BlockListsConfig;
  return base::fields_of<C>(base::Field{"num_warps", &C::num_warps});
}

constexpr auto fields(const GatherKeysConfig*) {
  using C = GatherKeysConfig;
  return base::fields_of<C>(
      base::Field{"head_dim", &C::head_dim}, base::Field{"head_dim_v", &C::head_dim_v},
      base::Field{"aligned", &C::aligned}, base::Field{"index_bytes", &C::index_bytes},
      base::Field{"num_warps", &C::num_warps});
}

constexpr auto fields(const ScatterKeysConfig*) {
  using C = ScatterKeysConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"aligned", &C::aligned},
      base::Field{"num_warps", &C::num_warps}, base::Field{"num_keys", &C::num_keys});
}

constexpr auto fields(const OperandSumConfig*) {
  using C = OperandSumConfig;
  return base::fields_of<C>(base::Field{"num_warps", &C::num_warps},
                            base::Field{"num_elements", &C::num_elements});
}

constexpr auto fields(const PackedOrderConfig*) {
  using C = PackedOrderConfig;
  return base::fields_of<C>(base::Field{"block_q", &C::block_q},
                            base::Field{"pack_gqa_heads", &C::pack_gqa_heads},
                            base::Field{"paged_keys", &C::paged_keys});
}

constexpr auto fields(const ForwardCombineConfig*) {
  using C = ForwardCombineConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim_v", &C::head_dim_v},
      base::Field{"num_warps", &C::num_warps}, base::Field{"row_max", &C::row_max});
}

constexpr auto fields(const ClearCountConfig*) {
  using C = ClearCountConfig;
  return base::fields_of<C>(base::Field{"num_warps", &C::num_warps});
}

constexpr auto fields(const MaxLogitsConfig*) {
  using C = MaxLogitsConfig;
  return base::fields_of<C>(base::Field{"num_warps", &C::num_warps});
}

constexpr auto fields(const BackwardPreprocessConfig*) {
  using C = BackwardPreprocessConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim_v", &C::head_dim_v},
      base::Field{"aligned", &C::aligned}, base::Field{"bf16x3", &C::bf16x3},
      base::Field{"dq_columns", &C::dq_columns}, base::Field{"sink", &C::sink},
      base::Field{"sink_dtype", &C::sink_dtype}, base::Field{"row_mask", &C::row_mask},
      base::Field{"row_bias", &C::row_bias}, base::Field{"bias_dtype", &C::bias_dtype},
      base::Field{"packed", &C::packed});
}

constexpr auto fields(const FragmentSumConfig*) {
  using C = FragmentSumConfig;
  return base::fields_of<C>(base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
                            base::Field{"aligned", &C::aligned}, base::Field{"packed", &C::packed},
                            base::Field{"stored", &C::stored});
}

constexpr auto fields(const BiasSumConfig*) {
  using C = BiasSumConfig;
  return base::fields_of<C>(base::Field{"dtype", &C::dtype}, base::Field{"partials", &C::partials},
                            base::Field{"vectorized", &C::vectorized},
                            base::Field{"over_queries", &C::over_queries},
                            base::Field{"packed", &C::packed}, base::Field{"groups", &C::groups});
}

constexpr auto fields(const MergeLseConfig*) {
  using C = MergeLseConfig;
  return base::fields_of<C>(base::Field{"part_dtype", &C::part_dtype},
                            base::Field{"dtype", &C::dtype},
                            base::Field{"head_dim_v", &C::head_dim_v},
                            base::Field{"aligned", &C::aligned}, base::Field{"carry", &C::carry});
}

}  // namespace attnjit::kernel
