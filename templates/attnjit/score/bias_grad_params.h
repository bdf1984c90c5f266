#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Where score gradients go on their way to dbias. Strides are in elements, 0 on reduced axes.
struct BiasGradParams {
  void* data;
  int64 batch_stride, head_stride, query_stride, key_stride;
  int32 heads_per_plane;    // query heads that share one plane
  int32 batches_per_plane;  // batch elements that do, see batch_groups.cuh
  uint8* stored;            // see StoredTiles
  int32 shares;  // of a plane's batch elements and heads, of the kernel of dbias: each has sums of
                 // its own, fp32, in place of a plane over the batch; 1: data is dbias itself
};

// Marks of tiles of dS, where each plane is kept apart: 1 for stored tiles; 0 for tiles that are
// zero and not in memory.
struct StoredTiles {
  const uint8* data;  // [batch][query head][tile of queries][tile of 128 keys]
  int32 heads, q_tiles, kv_tiles;
  int32 block_q;  // queries of a tile
};

// The planes of dbias, batch elements and heads, and their sizes.
struct BiasPlanes {
  int32 batches, heads;
  int32 queries, keys;
};

}  // namespace attnjit::kernel
