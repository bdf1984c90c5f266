#include "inputs.hpp"

namespace attnjit::torch_library {
namespace {

template <class... Values>
void take(StableIValue* stack, Values&... values) {
  static_assert(sizeof...(values) == ForwardInputs::kNumArguments);
  ((values = torch::stable::detail::to<Values>(*stack++)), ...);
}

}  // namespace

ForwardInputs::ForwardInputs(StableIValue* stack) {
  take(stack, q, k, v, mask, bias, sink, alibi_slopes, seqlens_q, seqlens_kv, cu_seqlens_q,
       cu_seqlens_kv, block_table, tail_mask, block_indices, block_counts, full_block_indices,
       full_block_counts, key_indices, read, scale, causal, diagonal, window_left, window_right,
       softcap, diagonal_offset, prepared_mask, plane_orders, score, keep, operand_names,
       row_offset, key_offset, block_sizes, need_lse, need_row_max, need_max_logits,
       sequence_major);
}

}  // namespace attnjit::torch_library
