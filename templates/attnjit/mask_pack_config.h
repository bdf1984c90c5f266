#pragma once
#include "attnjit/score/packed_mask_params.h"
#include "attnjit/tile/tile_use.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the mask prepass. The result is the same whichever kernel will read it.
struct MaskPackConfig {
  bool per_pair;    // the mask varies over queries as well as keys
  bool vectorized;  // 32 neighbouring keys are two aligned 16-byte loads
  bool by_keys;     // the bits are written by keys too, which needs per_pair

  // Rows of a tile and words of each, and the threads of a block, one for a word.
  ATTNJIT_CONSTEXPR int rows() const { return per_pair ? kMaskTile : 1; }
  static constexpr int kWords = kMaskTile / 32;
  ATTNJIT_CONSTEXPR int num_threads() const { return round_up(rows() * kWords, 32); }
};

// Run-time arguments of the prepass.
struct MaskPackParams {
  const uint8* mask;  // nonzero = keep
  uint32* words;      // [plane][row][words_per_row], bit j of word w is key 32 w + j
  uint8* classes;     // [plane][q tile][kv tile], a TileUse each, of kMaskTile by kMaskTile
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 num_heads;  // of the mask: planes are (batch, head) pairs of its own axes
  int32 seqlen_q;   // rows of the mask; 1 unless per_pair
  int32 seqlen_kv;
  int32 words_per_row;  // a multiple of kPackedWords
  int32 num_q_tiles;
  int32 num_kv_tiles;   // those that a row's words make up: the last may lie past the keys
  uint32* key_words;    // [plane][key][words_per_key], bit i of word w is query 32 w + i; by_keys
  int32 words_per_key;  // 2 for each tile of queries
};

}  // namespace attnjit::kernel
