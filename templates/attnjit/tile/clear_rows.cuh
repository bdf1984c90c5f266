#pragma once
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/warpgroup.cuh"

namespace attnjit::kernel {

// Zero-fills rows of a SlabTile, by a warp: four lines at a time, eight lanes each.
template <class Tile, class Unread>
ATTNJIT_DEVICE void clear_rows(uint32 tile, Unread unread) {
  const int chunk = ptx::lane_index() & 7;
  for (int row = ptx::lane_index() >> 3; row < Tile::kHeight; row += 4) {
    if (!unread(row)) continue;
    for (int slab = 0; slab < Tile::kSlabs; ++slab) {
      ptx::store_shared_16(tile + Tile::rows_on(slab * Tile::kHeight + row) + 16 * chunk, {});
    }
  }
}
// Makes the warp's writes visible to threads that wait for `full`.
ATTNJIT_DEVICE void publish_rows(uint32 full) {
  ptx::fence_async_proxy();
  ptx::warp_sync();  // all rows are zero
  ptx::barrier_arrive_if(ptx::lane_index() == 0, full);
}

}  // namespace attnjit::kernel
