#pragma once
#include "attnjit/backward_wgmma_config.h"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel {

// Goes with `walk`, a KeyTileWalk, to the places of a thread block, one after another, and calls
// work(place) with their numbers. A place is a tile of keys of one kv head: the block's own, if it
// has any, or, where it takes whole planes, each of every num_blocks-th kv head.
template <BackwardWgmmaConfig kConfig, class Walk, class Work>
ATTNJIT_DEVICE void for_each_place(Walk& walk, const BackwardWgmmaParams& params, Work work) {
  if constexpr (!kConfig.whole_planes) {
    walk.locate();
    if (walk.has_keys()) work(0u);
  } else {
    // One number, not one for planes and one for tiles: those that have keys have no register left.
    const uint32 tiles = params.base.num_kv_tiles;
#pragma unroll 1
    for (uint32 place = 0;; ++place) {
      const uint32 plane = ptx::block_index() + place / tiles * params.num_blocks;
      if (plane >= static_cast<uint32>(params.base.num_planes)) return;
      walk.locate(plane, static_cast<int>(place % tiles), 0);
      work(place);
    }
  }
}

}  // namespace attnjit::kernel
