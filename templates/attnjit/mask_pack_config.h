#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the mask prepass. The tile is that of the kernel that will read the result.
struct MaskPackConfig {
  bool per_pair;    // the mask varies over queries as well as keys
  bool vectorized;  // 32 neighbouring keys are two aligned 16-byte loads
  int block_q;
  int block_kv;
  int num_warps;

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  ATTNJIT_CONSTEXPR int rows() const { return per_pair ? block_q : 1; }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const MaskPackConfig& config) {
  if (config.block_q < 1) return "block_q must be at least 1";
  if (config.block_kv < 32 || config.block_kv % 32 != 0)
    return "block_kv must be a multiple of 32 keys";
  if (config.num_warps < 1 || config.num_warps > 16) return "num_warps must be 1 to 16";
  return nullptr;
}

// Run-time arguments of the prepass.
struct MaskPackParams {
  const uint8* mask;  // nonzero = keep
  uint32* words;      // [plane][row][words_per_row], bit j of word w is key 32 w + j
  uint8* classes;     // [plane][q tile][kv tile], a TileUse each
  int64 batch_stride, head_stride, query_stride, key_stride;  // of the mask, in bytes
  int32 num_heads;  // of the mask: planes are (batch, head) pairs of its own axes
  int32 seqlen_q;   // rows of the mask; 1 unless per_pair
  int32 seqlen_kv;
  int32 words_per_row;  // block_kv / 32 * num_kv_tiles
  int32 num_q_tiles, num_kv_tiles;
};

}  // namespace attnjit::kernel
