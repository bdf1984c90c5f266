#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/operand_params.h"

namespace attnjit::kernel {

// A bias that is the same for all keys of a row. It shifts the row's logarithm of the sum and
// leaves the output alone, so nothing happens in the main loop; at -inf the row is dead.
template <DType kDType>
struct RowBias : Feature {
  const OperandParams& params;

  ATTNJIT_DEVICE explicit RowBias(const OperandParams& p) : params(p) {}

  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    if (owner.query >= block.query_len) return;
    const int64 index = block.batch * params.batch_stride +
                        owner.head / params.heads_per_plane * params.head_stride +
                        owner.query * params.query_stride;
    float bias;
    if constexpr (kDType == DType::kFloat32) {
      bias = ptx::load_global(static_cast<const float*>(params.data) + index);
    } else {
      bias = ptx::widen<kDType>(ptx::load_global(static_cast<const uint16*>(params.data) + index));
    }
    if (row.max + bias <= kDeadScore) row.sum = 0.0f;
    row.max += bias;
  }
};

}  // namespace attnjit::kernel
