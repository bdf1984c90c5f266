#pragma once
#include "attnjit/backward.hpp"
#include "attnjit/block_lists.hpp"
#include "attnjit/merge_lse.hpp"
#include "attnjit/prepared_mask.hpp"
#include "base/fields.hpp"

/// The members of calls, each list once: what compares calls, checks their addresses or lists their
/// tensors is made from these. A member that a list lacks does not compile.
namespace attnjit {

constexpr auto fields(const ScoreOptions*) {
  using O = ScoreOptions;
  return base::fields_of<O>(
      base::Field{"scale", &O::scale}, base::Field{"softcap", &O::softcap},
      base::Field{"causal", &O::causal}, base::Field{"window", &O::window},
      base::Field{"diagonal", &O::diagonal}, base::Field{"diagonal_offset", &O::diagonal_offset},
      base::Field{"row_offset", &O::row_offset}, base::Field{"key_offset", &O::key_offset});
}

constexpr auto fields(const BlockLists*) {
  using L = BlockLists;
  return base::fields_of<L>(
      base::Field{"blocks.block_q", &L::block_q}, base::Field{"blocks.block_kv", &L::block_kv},
      base::Field{"blocks.indices", &L::indices}, base::Field{"blocks.counts", &L::counts},
      base::Field{"blocks.full_indices", &L::full_indices},
      base::Field{"blocks.full_counts", &L::full_counts},
      base::Field{"blocks.num_kv_blocks", &L::num_kv_blocks});
}

/// Without those of its base, ScoreOptions.
constexpr auto fields(const ForwardArgs*) {
  using A = ForwardArgs;
  return base::fields_of<A, 1>(
      base::Field{"q", &A::q}, base::Field{"k", &A::k}, base::Field{"v", &A::v},
      base::Field{"out", &A::out}, base::Field{"mask", &A::mask}, base::Field{"bias", &A::bias},
      base::Field{"sink", &A::sink}, base::Field{"alibi_slopes", &A::alibi_slopes},
      base::Field{"lse", &A::lse}, base::Field{"row_max", &A::row_max},
      base::Field{"max_logits", &A::max_logits}, base::Field{"seqlens_q", &A::seqlens_q},
      base::Field{"seqlens_kv", &A::seqlens_kv}, base::Field{"cu_seqlens_q", &A::cu_seqlens_q},
      base::Field{"cu_seqlens_kv", &A::cu_seqlens_kv},
      base::Field{"num_sequences", &A::num_sequences}, base::Field{"block_table", &A::block_table},
      base::Field{"block_table_stride", &A::block_table_stride},
      base::Field{"max_pages", &A::max_pages}, base::Field{"tail_mask", &A::tail_mask},
      base::Field{"prepared_mask", &A::prepared_mask}, base::Field{"mask_order", &A::mask_order},
      base::Field{"bias_order", &A::bias_order}, base::Field{"score", &A::score},
      base::Field{"keep", &A::keep}, base::Field{"operands", &A::operands},
      base::Field{"blocks", &A::blocks}, base::Field{"key_indices", &A::key_indices});
}

constexpr auto fields(const BackwardArgs*) {
  using A = BackwardArgs;
  return base::fields_of<A>(base::Field{"forward", &A::forward}, base::Field{"dout", &A::dout},
                            base::Field{"dlse", &A::dlse}, base::Field{"dq", &A::dq},
                            base::Field{"dk", &A::dk}, base::Field{"dv", &A::dv},
                            base::Field{"dbias", &A::dbias}, base::Field{"dsink", &A::dsink},
                            base::Field{"operand_gradients", &A::operand_gradients},
                            base::Field{"deterministic", &A::deterministic});
}

constexpr auto fields(const MergeLseArgs*) {
  using A = MergeLseArgs;
  return base::fields_of<A>(
      base::Field{"parts", &A::parts}, base::Field{"part_stride", &A::part_stride},
      base::Field{"num_parts", &A::num_parts}, base::Field{"part_lses", &A::part_lses},
      base::Field{"carry", &A::carry}, base::Field{"carry_lse", &A::carry_lse},
      base::Field{"out", &A::out}, base::Field{"lse", &A::lse});
}

constexpr auto fields(const PrepareMaskArgs*) {
  using A = PrepareMaskArgs;
  return base::fields_of<A>(base::Field{"mask", &A::mask},
                            base::Field{"for_backward", &A::for_backward},
                            base::Field{"memory", &A::memory});
}

}  // namespace attnjit
