#pragma once
#include "attnjit/ptx/store_if.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/key_order.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The keys of a tile in StridedKeyOrder, boxes of kPageKeys keys, that a warp zero-fills: whatever
// is stored there, a NaN included, must not meet a probability of 0. A bit for each row of the
// tile.
template <int kKeys, int kPageKeys>
struct UnreadKeys {
  uint32 rows[kKeys / 32];

  // is_unread(key) tells of a key, counted from the tile's first. All rows are tested at once,
  // because a test may read memory.
  template <class IsUnread>
  ATTNJIT_DEVICE explicit UnreadKeys(IsUnread is_unread) {
#pragma unroll
    for (int i = 0; i < kKeys / 32; ++i) {
      const int row = 32 * i + ptx::lane_index(), page = kPageKeys;
      const int within = page == kKeys ? row : row % page;
      const int key = row - within + StridedKeyOrder::key(page, within);
      rows[i] = ptx::warp_ballot(is_unread(key));
    }
  }

  // Zero-fills them in the SlabTile at `tile`: some lanes for the line of each row, so four or
  // eight rows at a time.
  template <class Tile>
  ATTNJIT_DEVICE void zero_fill(uint32 tile) const {
    static_assert(Tile::kHeight == kKeys);
    constexpr int kLanes = Tile::kLineBytes / 16, kRows = 32 / kLanes;
    const uint32 line = tile + 16 * ptx::lane_index();
#pragma unroll
    for (int i = 0; i < kKeys / kRows; ++i) {
      const int first = kRows * i;
      const bool unread = (rows[first / 32] >> (first % 32 + ptx::lane_index() / kLanes) & 1) != 0;
#pragma unroll
      for (int slab = 0; slab < Tile::kSlabs; ++slab) {
        ptx::store_shared_16_if(unread, line + slab * Tile::kSlabBytes + Tile::rows_on(first), {});
      }
    }
  }
};

}  // namespace attnjit::kernel
