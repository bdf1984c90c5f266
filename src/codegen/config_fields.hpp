#pragma once
#include "attnjit/backward/bias_sum_config.h"
#include "attnjit/backward/dkv_wgmma/config.h"
#include "attnjit/backward/dkv_wgmma_d256/config.h"
#include "attnjit/backward/dq_wgmma/config.h"
#include "attnjit/backward/fragment_sum_config.h"
#include "attnjit/backward/mma/config.h"
#include "attnjit/backward/preprocess_config.h"
#include "attnjit/forward/combine_config.h"
#include "attnjit/forward/max_logits_config.h"
#include "attnjit/forward/merge_lse_config.h"
#include "attnjit/forward/mma/config.h"
#include "attnjit/forward/wgmma/config.h"
#include "attnjit/prepass/mask_pack_config.h"
#include "attnjit/prepass/packed_order_config.h"
#include "base/fields.hpp"

/// The members of the kernels' configs, which stubs spell out. Templates include nothing of the
/// host.
namespace attnjit::kernel {

constexpr auto fields(const ForwardConfig*) {
  using C = ForwardConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"aligned", &C::aligned}, base::Field{"scale_first", &C::scale_first},
      base::Field{"pack_heads", &C::pack_heads}, base::Field{"block_q", &C::block_q},
      base::Field{"block_kv", &C::block_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"num_warps", &C::num_warps}, base::Field{"min_blocks", &C::min_blocks},
      base::Field{"softmax", &C::softmax});
}

constexpr auto fields(const ForwardWgmmaConfig*) {
  using C = ForwardWgmmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"pack_heads", &C::pack_heads},
      base::Field{"block_q", &C::block_q}, base::Field{"block_kv", &C::block_kv},
      base::Field{"piece_kv", &C::piece_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"producer_registers", &C::producer_registers},
      base::Field{"row_max", &C::row_max}, base::Field{"packs_sequences", &C::packs_sequences},
      base::Field{"one_edge", &C::one_edge});
}

constexpr auto fields(const MaskPackConfig*) {
  using C = MaskPackConfig;
  return base::fields_of<C>(
      base::Field{"per_pair", &C::per_pair}, base::Field{"vectorized", &C::vectorized},
      base::Field{"by_rows", &C::by_rows}, base::Field{"by_keys", &C::by_keys});
}

constexpr auto fields(const PackedOrderConfig*) {
  using C = PackedOrderConfig;
  return base::fields_of<C>(base::Field{"block_q", &C::block_q},
                            base::Field{"packed_heads", &C::packed_heads},
                            base::Field{"paged_keys", &C::paged_keys});
}

constexpr auto fields(const ForwardCombineConfig*) {
  using C = ForwardCombineConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim_v", &C::head_dim_v},
      base::Field{"num_warps", &C::num_warps}, base::Field{"row_max", &C::row_max});
}

constexpr auto fields(const MaxLogitsConfig*) {
  using C = MaxLogitsConfig;
  return base::fields_of<C>(base::Field{"num_warps", &C::num_warps});
}

constexpr auto fields(const BackwardConfig*) {
  using C = BackwardConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"aligned", &C::aligned}, base::Field{"scale_first", &C::scale_first},
      base::Field{"adds_dq", &C::adds_dq}, base::Field{"block_q", &C::block_q},
      base::Field{"block_kv", &C::block_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"num_warps", &C::num_warps}, base::Field{"query_warps", &C::query_warps},
      base::Field{"min_blocks", &C::min_blocks}, base::Field{"late", &C::late},
      base::Field{"fresh", &C::fresh});
}

constexpr auto fields(const BackwardWgmmaConfig*) {
  using C = BackwardWgmmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"any_scale", &C::any_scale},
      base::Field{"bias_tiles", &C::bias_tiles}, base::Field{"dq_order", &C::dq_order},
      base::Field{"whole_planes", &C::whole_planes},
      base::Field{"shares_places", &C::shares_places}, base::Field{"block_q", &C::block_q},
      base::Field{"num_stages", &C::num_stages},
      base::Field{"producer_registers", &C::producer_registers},
      base::Field{"dq_registers", &C::dq_registers});
}

constexpr auto fields(const BackwardWideConfig*) {
  using C = BackwardWideConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"bias_tiles", &C::bias_tiles},
      base::Field{"num_stages", &C::num_stages},
      base::Field{"producer_registers", &C::producer_registers});
}

constexpr auto fields(const BackwardDqWgmmaConfig*) {
  using C = BackwardDqWgmmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"k_stages", &C::k_stages},
      base::Field{"v_stages", &C::v_stages},
      base::Field{"producer_registers", &C::producer_registers});
}

constexpr auto fields(const BackwardPreprocessConfig*) {
  using C = BackwardPreprocessConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim_v", &C::head_dim_v},
      base::Field{"aligned", &C::aligned}, base::Field{"pieces", &C::pieces},
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
  return base::fields_of<C>(base::Field{"dtype", &C::dtype}, base::Field{"parts", &C::parts},
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
