#pragma once
#include "attnjit/score/feature.cuh"
#include "attnjit/score/load_row_bias.cuh"

namespace attnjit::kernel {

// A bias that is the same for all keys of a row. It shifts the row's lse and does not change the
// output, so the main loop has no code for it; at -inf the row is dead.
template <DType kDType>
struct RowBias : Feature {
  const OperandParams& params;

  ATTNJIT_DEVICE explicit RowBias(const OperandParams& p) : params(p) {}

  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    if (owner.query >= block.query_len) return;
    const float bias = load_row_bias<kDType>(params, block.batch, owner.head, owner.query);
    if (row.max + bias <= kDeadScore) row.sum = 0.0f;
    row.max += bias;
  }
};

}  // namespace attnjit::kernel
