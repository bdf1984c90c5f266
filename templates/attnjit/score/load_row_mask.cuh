#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/operand_params.h"

namespace attnjit::kernel {

// Whether a mask that is the same for all keys of a row keeps that row. `batch` is the number of a
// plane where batch elements share planes in groups.
ATTNJIT_DEVICE bool keeps_row(const OperandParams& mask, int batch, int head, int query) {
  return ptx::load_global(static_cast<const uint8*>(mask.data) + batch * mask.batch_stride +
                          head / mask.heads_per_plane * mask.head_stride +
                          query * mask.query_stride) != 0;
}

}  // namespace attnjit::kernel
