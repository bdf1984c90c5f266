#pragma once
#include "attnjit/mask_pack_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/mask_tile.cuh"

// The mask prepass: packs a boolean mask to one bit per key, and tells of each tile of kMaskTile
// queries by kMaskTile keys whether all, some or none of its keys are kept.
//
//   mask    [batch or 1, heads, Lq or 1, Lk], one byte an element, any strides
//   words   [plane][row][words_per_row]        classes [plane][q tile][kv tile]
//
// On request the bits are written by keys as well, [plane][key][words_per_key], for kernels that
// have keys in the rows of their scores.
//
// A thread block has a tile, each thread a word of 32 keys. No shared memory.
namespace attnjit::kernel {

// Bit i of the result is byte i of `bytes` != 0.
ATTNJIT_DEVICE uint32 nonzero_bytes(uint32 bytes) {
  bytes |= bytes >> 4;
  bytes |= bytes >> 2;
  bytes |= bytes >> 1;
  // The low bits of four bytes, moved next to each other by one multiplication.
  return ((bytes & 0x01010101u) * 0x10204080u) >> 28;
}

template <MaskPackConfig kConfig>
struct MaskPack {
  static constexpr int kWords = kConfig.kWords;

  const MaskPackParams& params;

  // The 32 keys from `key` on of one mask row; keys past the end are 0.
  ATTNJIT_DEVICE uint32 pack(const uint8* row, int key) const {
    uint32 word = 0;
    if (kConfig.vectorized && key + 32 <= params.seqlen_kv) {
      const auto* source = reinterpret_cast<const ptx::Vector16*>(row + key);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const ptx::Vector16 v = ptx::load_global(source + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) word |= nonzero_bytes(v.word[j]) << (16 * i + 4 * j);
      }
      return word;
    }
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
      if (key + i < params.seqlen_kv) {
        const uint8 keep = ptx::load_global(row + (key + i) * params.key_stride);
        word |= static_cast<uint32>(keep != 0) << i;
      }
    }
    return word;
  }

  // The word of a row that keeps every key from `key` on.
  ATTNJIT_DEVICE uint32 full_word(int key) const {
    const int valid = params.seqlen_kv - key;
    return valid >= 32 ? 0xffffffffu : valid <= 0 ? 0u : (1u << valid) - 1;
  }

  // Writes a word of each of 32 rows, which the lanes have, as one of each of its 32 keys.
  ATTNJIT_DEVICE void store_by_keys(int64 plane, int first_query, int first_key,
                                    uint32 word) const {
    uint32 of_key = 0;  // the lane's
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const uint32 rows = ptx::warp_ballot((word >> i & 1) != 0);
      if (ptx::lane_index() == i) of_key = rows;
    }
    const int key = first_key + ptx::lane_index();
    if (key >= params.seqlen_kv) return;
    ptx::store_global(params.key_words + (plane * params.seqlen_kv + key) * params.words_per_key +
                          first_query / 32,
                      of_key);
  }

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    const MaskTile tile(params);
    const int thread = ptx::thread_index();
    // Neighbours have neighbouring words, but a warp a word of each of 32 rows to write them by
    // keys.
    const int row = kConfig.by_keys ? thread / (32 * kWords) * 32 + thread % 32 : thread / kWords;
    const int column = kConfig.by_keys ? thread / 32 % kWords : thread % kWords;
    const int query = tile.q_tile * kConfig.rows() + row;
    const int index = tile.kv_tile * kWords + column;
    bool any = false, all = true;
    uint32 word = 0;
    if (row < kConfig.rows() && query < params.seqlen_q) {
      word = pack(tile.mask + query * params.query_stride, 32 * index);
      any = word != 0;
      all = word == full_word(32 * index);
      ptx::store_global(
          params.words + (tile.plane * params.seqlen_q + query) * params.words_per_row + index,
          word);
    }
    if constexpr (kConfig.by_keys) {
      store_by_keys(tile.plane, query - ptx::lane_index(), 32 * index, word);
    }
    tile.classify(params.classes, any, all);
  }
};

template <MaskPackConfig kConfig>
ATTNJIT_DEVICE void mask_pack(const MaskPackParams& params) {
  MaskPack<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
