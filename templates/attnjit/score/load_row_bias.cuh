#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/operand_params.h"

namespace attnjit::kernel {

// The bias of a row where it is the same for all keys. `batch` is the number of a plane where batch
// elements share planes in groups.
template <DType kDType>
ATTNJIT_DEVICE float load_row_bias(const OperandParams& bias, int batch, int head, int query) {
  const int64 index = batch * bias.batch_stride + head / bias.heads_per_plane * bias.head_stride +
                      query * bias.query_stride;
  if constexpr (kDType == DType::kFloat32) {
    return ptx::load_global(static_cast<const float*>(bias.data) + index);
  } else {
    return ptx::widen<kDType>(ptx::load_global(static_cast<const uint16*>(bias.data) + index));
  }
}

}  // namespace attnjit::kernel
