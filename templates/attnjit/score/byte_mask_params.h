#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A boolean mask as its caller stores it, with a class for each tile of kMaskTile by kMaskTile.
struct ByteMaskParams {
  const uint8* mask;     // nonzero = keep
  const uint8* classes;  // [plane][q tile][kv tile], a TileUse each
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 heads_per_plane;                                      // query heads that share one plane
  int32 batches_per_plane;  // batch elements that do, see batch_groups.cuh
  int32 planes_per_batch;   // 0 if the mask is broadcast over the batch
  int32 num_q_tiles;        // 1 if all queries share the mask
  int32 num_kv_tiles;
};

}  // namespace attnjit::kernel
