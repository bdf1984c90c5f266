#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/tile_use.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The tile of a boolean mask that a thread block looks at: the prepasses have one block per tile.
struct MaskTile {
  uint32 index;  // of [plane][q tile][kv tile]
  int q_tile, kv_tile;
  int64 plane;
  const uint8* mask;  // of the plane

  template <class Params>
  ATTNJIT_DEVICE explicit MaskTile(const Params& params) : index(ptx::block_index()) {
    kv_tile = static_cast<int>(index % params.num_kv_tiles);
    const uint32 rest = index / params.num_kv_tiles;
    q_tile = static_cast<int>(rest % params.num_q_tiles);
    plane = rest / params.num_q_tiles;
    mask = params.mask + plane / params.num_heads * params.batch_stride +
           plane % params.num_heads * params.head_stride;
  }

  // Writes what the tile needs: whether any and all of the keys that the thread has seen are kept.
  ATTNJIT_DEVICE void classify(uint8* classes, bool any, bool all) const {
    any = ptx::block_any(any);
    all = ptx::block_all(all);
    if (ptx::thread_index() == 0) {
      const TileUse use = !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
      ptx::store_global(classes + index, static_cast<uint8>(use));
    }
  }
};

}  // namespace attnjit::kernel
