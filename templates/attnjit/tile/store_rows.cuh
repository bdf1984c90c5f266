#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/store_if.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/quad_rows.cuh"

namespace attnjit::kernel {

// Writes a warp's 16 rows of fragments times `factor`, rounded to kDType, to rows `first_row` and
// on of `head`, `stride` apart: 16 bytes a lane. Rows from `end_row` on and columns from `columns`
// on are left out. Columns of the fragments come in whole 32.
template <DType kDType, int kGroups>
ATTNJIT_DEVICE void store_rows(const Fragments<1, kGroups>& sums, float factor, uint16* head,
                               int64 stride, int first_row, int end_row, int columns) {
  const int lane = ptx::lane_index();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int index = first_row + 8 * h + lane / 4;
    uint16* const row = head + index * stride + 8 * (lane & 3);
#pragma unroll
    for (int n = 0; n < kGroups; n += 4) {
      uint32 word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&group)[4] = sums[0][n + i];
        word[i] = ptx::pack<kDType>(group[2 * h] * factor, group[2 * h + 1] * factor);
      }
      gather_group(word);
      const bool inside = index < end_row && 8 * n + 8 * (lane & 3) < columns;
      ptx::store_global_if(inside, reinterpret_cast<ptx::Vector16*>(row + 8 * n),
                           {{word[0], word[1], word[2], word[3]}});
    }
  }
}

}  // namespace attnjit::kernel
