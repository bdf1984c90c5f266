#pragma once
#include "attnjit/tile/tile_use.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that classifies the tiles of a mask.
struct MaskClassesConfig {
  bool per_pair;    // the mask varies over queries as well as keys
  bool vectorized;  // 16 neighbouring keys are an aligned 16-byte load

  // Rows and keys of a tile, and the threads of a block, one for 16 keys of a row.
  ATTNJIT_CONSTEXPR int rows() const { return per_pair ? kMaskTile : 1; }
  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
};

struct MaskClassesParams {
  const uint8* mask;  // [batch or 1, heads, Lq or 1, Lk], one byte an element, nonzero = keep
  uint8* classes;     // [plane][q tile][kv tile], a TileUse each
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 num_heads;  // of the mask: planes are (batch, head) pairs of its own axes
  int32 seqlen_q;   // rows of the mask; 1 unless per_pair
  int32 seqlen_kv;
  int32 num_q_tiles, num_kv_tiles;
};

}  // namespace attnjit::kernel
