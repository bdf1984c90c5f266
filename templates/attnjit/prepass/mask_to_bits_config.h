#pragma once
#include "attnjit/score/bit_mask_params.h"
#include "attnjit/tile/tile_use.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the mask prepass. What it writes is the same whichever kernel will read it.
struct MaskToBitsConfig {
  bool per_pair;    // the mask varies over queries as well as keys
  bool vectorized;  // 16 neighbouring keys are an aligned 16-byte load
  bool by_rows;     // the bits are written by rows, see bit_mask_params.h
  bool by_keys;     // they are written by keys, which needs per_pair

  // A thread block converts rows() queries by kKeys keys; a warp classifies a tile of these at a
  // time.
  static constexpr int kKeys = 512, kWords = kKeys / 32;
  ATTNJIT_CONSTEXPR int rows() const { return per_pair ? kMaskTile : 1; }
  ATTNJIT_CONSTEXPR int num_threads() const { return per_pair ? 256 : 32; }

  // Shared memory: [row][kWords], one more word a row, so that the words of a column lie in
  // different banks.
  static constexpr int kRowBytes = 4 * (kWords + 1);
  ATTNJIT_CONSTEXPR int shared_bytes() const { return rows() * kRowBytes; }
};

// Run-time arguments of the prepass.
struct MaskToBitsParams {
  const uint8* mask;  // nonzero = keep
  uint32* words;      // [plane][row][words_per_row], if the config has by_rows
  uint64* columns;    // [plane][q tile][32 words_per_row], if it has by_keys
  uint8* classes;     // [plane][q tile][kv tile], a TileUse each, of kMaskTile by kMaskTile
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 num_heads;  // of the mask: planes are (batch, head) pairs of its own axes
  int32 seqlen_q;   // rows of the mask; 1 unless per_pair
  int32 seqlen_kv;
  int32 words_per_row;  // a multiple of kMaskGroupWords
  int32 num_q_tiles;
  int32 num_kv_tiles;    // those that a row's words make up: the last may lie past the keys
  int32 num_key_blocks;  // of MaskToBitsConfig::kKeys
  uint32* work_taken;    // to be cleared; may be nullptr
};

}  // namespace attnjit::kernel
