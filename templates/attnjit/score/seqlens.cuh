#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/seqlens_params.h"

namespace attnjit::kernel {

// Lengths per batch element, clamped to the tensors'. Rows past the end are dead.
struct Seqlens : Feature {
  static constexpr bool kNarrows = true;

  const SeqlensParams& params;

  ATTNJIT_DEVICE explicit Seqlens(const SeqlensParams& p) : params(p) {}

  ATTNJIT_DEVICE static int clamped(const int32* lengths, int batch, int limit) {
    if (lengths == nullptr) return limit;
    const int length = ptx::load_global(lengths + batch);
    return length < 0 ? 0 : length < limit ? length : limit;
  }
  ATTNJIT_DEVICE void set_lengths(Block& block) {
    block.query_len = clamped(params.q, block.batch, block.seqlen_q);
    block.kv_len = clamped(params.kv, block.batch, block.seqlen_kv);
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    if (owner.query >= block.query_len) row.sum = 0.0f;
  }
};

}  // namespace attnjit::kernel
