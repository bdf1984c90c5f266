#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/tile_use.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The uses of the current 32 tiles of keys, as bits: each lane determines one, and two votes pass
// them to all lanes.
struct TileVotes {
  int known = -1;  // the current group of 32 tiles
  uint32 active = 0, partial = 0;

  ATTNJIT_DEVICE void begin() { known = -1; }
  // The use of `tile`; use_of(tile) is called for the tiles of its group. All lanes of a warp call
  // it.
  template <class UseOf>
  ATTNJIT_DEVICE TileUse use(int tile, UseOf use_of) {
    if (tile / 32 != known) {
      known = tile / 32;
      const TileUse lanes_use = use_of(known * 32 + ptx::lane_index());
      active = ptx::warp_ballot(lanes_use != TileUse::kSkip);
      partial = ptx::warp_ballot(lanes_use == TileUse::kMasked);
    }
    const uint32 bit = 1u << (tile & 31);
    if ((active & bit) == 0) return TileUse::kSkip;
    return (partial & bit) != 0 ? TileUse::kMasked : TileUse::kPlain;
  }
};

}  // namespace attnjit::kernel
