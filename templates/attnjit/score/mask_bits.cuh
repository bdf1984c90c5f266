#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/bit_mask_params.h"
#include "attnjit/score/block.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/tile/tile_use.h"

// Loads of the bits of a mask to the registers of the threads that hold its scores. A source has
// the address of the current plane and the params of the mask. read() issues the loads; settle(),
// called once the product is under way, is the first to use them, so that no thread waits for
// memory before a product.
namespace attnjit::kernel {

// Bits by rows, for scores with queries in rows.
template <ScoreShape kShape, Extent kExtent>
struct RowBits {
  static_assert(kShape.queries_in_rows());
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr int kRows = kPerPair ? kShape.lines() : 1;
  static constexpr int kSpans = kShape.keys() / 32;
  static constexpr int kWords = ceil_div(kSpans, kMaskGroupWords);  // of a row's bits
  // Words of a group of kMaskGroupKeys that have keys of the thread.
  static constexpr int kHalves = 8 / kShape.neighbours();
  // Groups that the thread's keys of a row may touch: they begin at a multiple of kStep spans.
  static constexpr int kStep = kSpans % 4 == 0 ? 4 : kSpans % 2 == 0 ? 2 : 1;
  static constexpr int kGroups = ceil_div(kMaskGroupWords - kStep + kSpans, kMaskGroupWords);
  // Whether the groups of a tile of keys always lie inside of their row.
  static constexpr bool kInside = kMaskGroupKeys % kShape.block_kv == 0;

  // After settle(): bits of span s follow those of span s - 1, as in KeptKeys.
  uint32 word[kRows][kGroups * kHalves];

  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const int key = first_key + block.thread_key, first_group = key / kMaskGroupKeys;
    const int num_groups = source.params.words_per_row / kMaskGroupWords - first_group;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = block.thread_row + ScoreShape(kShape).row(r);
      // Rows past the tensor read its last row; their results are never stored.
      const int num_rows = block.operand_queries * kShape.pack_gqa_heads;
      const int last = row < num_rows ? row : num_rows - 1;
      const int64 query = kPerPair ? last / kShape.pack_gqa_heads : 0;
      const uint32* const words = source.words + query * source.params.words_per_row +
                                  first_group * kMaskGroupWords + key % 32 / 8;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          word[r][g * kHalves + half] =
              kInside || g < num_groups
                  ? ptx::load_global_written(words + g * kMaskGroupWords + 2 * half)
                  : 0;
        }
      }
    }
  }
  ATTNJIT_DEVICE void settle(const Block& block, int first_key) {
    if constexpr (kHalves == 2) {
      const int nibble = block.thread_key & 4;
      constexpr uint32 kLow = 0x0f0f0f0fu;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          word[r][g] = (word[r][2 * g] >> nibble & kLow) | (word[r][2 * g + 1] >> nibble & kLow)
                                                               << 4;
        }
      }
    }
    if constexpr (kStep < 4) {
      const int shift = (first_key + block.thread_key) / 32 % 4 * 8;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
          if constexpr (kGroups == 1) {
            word[r][i] >>= shift;
          } else {
            const uint64 high = i + 1 < kGroups ? word[r][i + 1] : 0;
            word[r][i] = static_cast<uint32>((high << 32 | word[r][i]) >> shift);
          }
        }
      }
    }
  }
  // Clears the bits of dropped keys in KeptKeys.
  template <class K>
  ATTNJIT_DEVICE void keep(K& kept) const {
#pragma unroll
    for (int line = 0; line < kShape.lines(); ++line) {
#pragma unroll
      for (int i = 0; i < K::kWords; ++i) kept.word[line][i] &= word[kPerPair ? line : 0][i];
    }
  }
  ATTNJIT_DEVICE bool is_zero(int line, int key) const {
    constexpr int kBits = kShape.neighbours(), kPerWord = 32 / kBits;
    const int span = key / kShape.span();
    const int bit = kBits * (span % kPerWord) + key % kShape.span();
    return (word[kPerPair ? line : 0][span / kPerWord] >> bit & 1) == 0;
  }
};

// For scores with keys in rows, of a plane that all queries share.
template <ScoreShape kShape>
struct KeyBits {
  static_assert(!kShape.queries_in_rows() && kShape.row_tiles == 1);
  static constexpr int kKeys = 2;  // 8 apart

  uint32 byte[kKeys];

  // Keys past the tensor are bits too, up to those that its words make up.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    // The keys are in one half of 32: their bytes belong to neighbouring words.
    const uint8* const first =
        reinterpret_cast<const uint8*>(source.words) + mask_byte(first_key + block.thread_key);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) byte[i] = ptx::load_global_now(first + 4 * i);
  }
  ATTNJIT_DEVICE void settle(const Block& block, int) {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) byte[i] >>= block.thread_key & 7;
  }
  // Drops keys from KeptQueries.
  template <class K>
  ATTNJIT_DEVICE void keep(K& kept) const {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) kept.keep_key(i, (byte[i] & 1) != 0);
  }
};

// Bits by keys (the source's `columns`), for scores with keys in rows.
template <ScoreShape kShape>
struct ColumnBits {
  static_assert(!kShape.queries_in_rows());
  static constexpr int kKeys = 2 * kShape.row_tiles;  // 8 apart
  static constexpr int kTiles = kShape.block_q / kMaskTile;

  uint32 quarter[kKeys][kTiles];  // of a column: bit i is that of line i of its tile

  // Keys past the tensor have bits too, up to the end of the words; tiles past the last one have no
  // queries.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const int first_tile = block.first_query / kMaskTile, keys = source.params.padded_keys();
    const int num_tiles = source.params.num_q_tiles - first_tile;
    const int lane_quarter = block.thread_row % 8 / 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const auto* const column = reinterpret_cast<const uint16*>(
          source.columns + (first_tile + int64{tile}) * keys + first_key + block.thread_key);
#pragma unroll
      for (int i = 0; i < kKeys; ++i) {
        quarter[i][tile] = tile == 0 || tile < num_tiles
                               ? ptx::load_global_now(column + 4 * 8 * i + lane_quarter)
                               : 0;
      }
    }
  }
  ATTNJIT_DEVICE void settle(const Block&, int) {}
  // Clears the bits of queries that drop a key in KeptQueries.
  template <class K>
  ATTNJIT_DEVICE void keep(K& kept) const {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      uint32 lines = quarter[i][0];
      if constexpr (kTiles == 2) lines |= quarter[i][1] << 16;
      kept.word[i] &= lines;
    }
  }
};

}  // namespace attnjit::kernel
