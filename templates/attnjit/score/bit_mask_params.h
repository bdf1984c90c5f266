#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Bits by rows. A row's keys come in groups of kMaskGroupKeys, kMaskGroupWords words each, so that
// a row begins at a multiple of 16 bytes. Word t of a group has keys 8 t to 8 t + 7 of each 32,
// which are those of a thread in KeyOrder: bit 8 s + i is key 32 s + 8 t + i of the group.
inline constexpr int kMaskGroupWords = 4, kMaskGroupKeys = 32 * kMaskGroupWords;

// The byte of a row that has a key, as bit key % 8.
ATTNJIT_INLINE_CONSTEXPR int mask_byte(int key) {
  return key / kMaskGroupKeys * 4 * kMaskGroupWords + key % 32 / 8 * 4 + key % kMaskGroupKeys / 32;
}

// Bits by keys. A column has the queries of a tile of kMaskTile for one key, 64 bits. Quarter t of
// it has queries 2 t and 2 t + 1 of each 8, which are those of a lane with keys in the rows of its
// scores: bit 16 t + 2 j + i is query 8 j + 2 t + i of the tile.

// A boolean mask as bits, with a class for each tile of kMaskTile by kMaskTile; written by
// prepass/mask_to_bits.cuh.
struct BitMaskParams {
  const uint32* words;   // [plane][row][words_per_row]
  const uint8* classes;  // [plane][q tile][kv tile], a TileUse each
  int64 words_per_plane;
  int64 classes_per_plane;
  int32 planes_per_batch;  // 0 if the mask is broadcast over the batch
  int32 heads_per_plane;
  int32 batches_per_plane;  // batch elements that share a plane, see batch_groups.cuh
  int32 words_per_row;      // a multiple of kMaskGroupWords
  int32 num_q_tiles;        // 1 if all queries share the mask
  int32 num_kv_tiles;

  // The keys of a row's words.
  ATTNJIT_CONSTEXPR int padded_keys() const { return 32 * words_per_row; }
};

// A mask for a backward: if it varies over queries, with the bits by keys too. Either pointer may
// be null if no kernel of the call reads it.
struct BackwardMaskParams {
  BitMaskParams bits;
  const uint64* columns;  // [plane][q tile][padded key]
};

}  // namespace attnjit::kernel
