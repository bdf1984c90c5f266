#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Writes the first `rows` of a warp's 16 rows of a result, rounded to kDType, from registers to
// `target`, whose rows are `stride` elements apart. value(n, e) is element e of column group n of
// the thread's fragment. kAligned: addresses are multiples of 16 bytes.
template <DType kDType, bool kAligned, int kColumns, class Value>
ATTNJIT_DEVICE void store_warp_rows(uint16* target, int64 stride, int rows, Value value) {
  const int lane = ptx::lane_index();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = lane / 4 + 8 * h;
    if (row >= rows) continue;
    uint16* const first = target + row * stride + 2 * (lane & 3);
#pragma unroll
    for (int n = 0; n < (kColumns + 7) / 8; ++n) {
      const uint32 pair = ptx::pack<kDType>(value(n, 2 * h), value(n, 2 * h + 1));
      if constexpr (kAligned) {
        ptx::store_global(reinterpret_cast<uint32*>(first + 8 * n), pair);
      } else {
        const int column = 8 * n + 2 * (lane & 3);
        if (column < kColumns) ptx::store_global(first + 8 * n, static_cast<uint16>(pair));
        if (column + 1 < kColumns) {
          ptx::store_global(first + 8 * n + 1, static_cast<uint16>(pair >> 16));
        }
      }
    }
  }
}

}  // namespace attnjit::kernel
