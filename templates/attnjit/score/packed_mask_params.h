#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Words of 32 keys come in fours, 16 bytes, so that each row begins at a multiple of them.
inline constexpr int kPackedWords = 4;

// A boolean mask packed to bits, with a class for each tile of kMaskTile by kMaskTile; written by
// mask_pack.cuh.
struct PackedMaskParams {
  const uint32* words;   // [plane][row][words_per_row], bit j of word w is key 32 w + j
  const uint8* classes;  // [plane][q tile][kv tile], a TileUse each
  int64 words_per_plane;
  int64 classes_per_plane;
  int32 planes_per_batch;  // 0 if the mask is broadcast over the batch
  int32 heads_per_plane;
  int32 batches_per_plane;  // batch elements that share a plane, see batch_groups.cuh
  int32 words_per_row;      // a multiple of kPackedWords
  int32 num_q_tiles;        // 1 if all queries share the mask
  int32 num_kv_tiles;
};

// One that was prepared for a backward: where it varies over queries, with the bits by keys too.
struct PreparedMaskParams {
  PackedMaskParams packed;
  const uint32* key_words;  // [plane][key][words_per_key], bit i of word w is query 32 w + i
  int64 key_words_per_plane;
  int32 words_per_key;  // 2 for each tile of queries
};

}  // namespace attnjit::kernel
