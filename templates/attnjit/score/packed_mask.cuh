#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/permute.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/mask_classes.cuh"
#include "attnjit/score/packed_mask_params.h"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Drops keys by a boolean mask that mask_pack.cuh has packed to bits and classified.
// Empty tiles are skipped before their K and V are read; full ones run without mask code. Packed
// heads share the mask: one that varies over the heads of a kv head is not for a config that packs.
template <ScoreShape kShape, Extent kExtent>
struct PackedMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPicksKeys = !kPerPair;
  static constexpr int kRows = kPerPair ? kShape.lines() : 1;
  static constexpr int kSpans = kShape.keys() / 32;
  // Whether the words of a tile of keys always lie inside of their row.
  static constexpr bool kInside = 32 * kPackedWords % kShape.block_kv == 0;

  const PackedMaskParams& params;
  const uint8* bytes;    // words of the block's plane; byte i holds keys 8 i to 8 i + 7
  const uint8* classes;  // of that plane, from the first row of them that the block touches
  int class_rows;        // from there on
  int known;             // the group of 32 tiles whose classes are at hand, or -1
  uint32 active, partial;
  // The thread's eight keys of each span: a word a span, or for keep() a byte.
  static constexpr bool kBytes = kShape.strided_keys;
  uint32 keep_words[kRows][kBytes ? ceil_div(kSpans, 4) : kSpans];

  ATTNJIT_DEVICE explicit PackedMask(const PackedMaskParams& p)
      : params(p),
        bytes(nullptr),
        classes(nullptr),
        class_rows(0),
        known(-1),
        active(0),
        partial(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const int64 plane = static_cast<int64>(block.batch) * params.planes_per_batch +
                        block.head / params.heads_per_plane;
    bytes = reinterpret_cast<const uint8*>(params.words + plane * params.words_per_plane);
    // Found here and not for each group of tiles: registers are scarce in the loop.
    const int first_class = kPerPair ? block.first_query / kMaskTile : 0;
    classes = params.classes + plane * params.classes_per_plane +
              static_cast<int64>(first_class) * params.num_kv_tiles;
    class_rows = params.num_q_tiles - first_class;
    known = -1;
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    if (tile / 32 != known) read_classes(block, tile / 32);
    const uint32 bit = 1u << (tile & 31);
    if ((active & bit) == 0) return TileUse::kSkip;
    return (partial & bit) != 0 ? TileUse::kMasked : TileUse::kPlain;
  }
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) const {
    constexpr int kQueries = kPerPair ? kShape.block_q / kShape.packed_heads : 1;
    return united_use<kQueries, kShape.block_kv>(classes, class_rows, params.num_kv_tiles,
                                                 kPerPair ? block.first_query % kMaskTile : 0,
                                                 tile * kShape.block_kv);
  }
  // A key that no query keeps is dropped here already, so that a NaN stored there stays there.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    return (ptx::load_global(bytes + key / 8) >> (key & 7) & 1) != 0;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if (tile_use != TileUse::kMasked) return;
    const int byte = (first_key + block.thread_key) / 8;
    const int num_words = params.words_per_row - first_key / 32;  // from the tile's first key on
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = block.thread_row + kShape.row(r);
      // Rows past the tensor repeat its last one; their results are never stored.
      const int num_rows = block.operand_queries * kShape.packed_heads;
      const int last = row < num_rows ? row : num_rows - 1;
      const int64 query = kPerPair ? last / kShape.packed_heads : 0;
      const uint8* words = bytes + query * params.words_per_row * 4;
      if constexpr (kBytes) {
        gather(keep_words[r], words + first_key / 8, block.thread_key / 8, num_words);
      } else {
#pragma unroll
        for (int s = 0; s < kSpans; ++s) {
          keep_words[r][s] = inside(s, num_words) ? ptx::load_global(words + byte + 4 * s) : 0;
        }
      }
    }
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block&, S& scores, int) {
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      const uint32 span = keep_words[kPerPair ? line : 0][key >> 5];
      if ((span >> (key & 31) & 1) == 0) score = -ptx::infinity();
    });
  }

  template <class K>
  ATTNJIT_DEVICE void keep(const Block&, K& kept, int) {
#pragma unroll
    for (int line = 0; line < kShape.lines(); ++line) {
#pragma unroll
      for (int i = 0; i < K::kWords; ++i) kept.word[line][i] &= keep_words[kPerPair ? line : 0][i];
    }
  }

 private:
  // Whether word `index` of a tile is one of the `num_words` that the row has left.
  ATTNJIT_DEVICE static bool inside(int index, int num_words) {
    return kInside || index < num_words;
  }
  // Of each of a row's words of a tile, the byte that is the thread's; byte s of the result is that
  // of span s.
  template <int kWords>
  ATTNJIT_DEVICE static void gather(uint32 (&kept)[kWords], const uint8* words, int byte,
                                    int num_words) {
    const uint32 pick = static_cast<uint32>(byte) * 0x11 + 0x40;  // the byte of two words
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      ptx::Vector16 v{};
      if constexpr (kSpans % 4 == 0) {
        if (inside(4 * i, num_words)) {
          v = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(words) + i);
        }
      } else {
#pragma unroll
        for (int s = 4 * i; s < kSpans; ++s) {
          if (!inside(s, num_words)) continue;
          v.word[s - 4 * i] = ptx::load_global(reinterpret_cast<const uint32*>(words) + s);
        }
      }
      kept[i] = ptx::permute_bytes(ptx::permute_bytes(v.word[0], v.word[1], pick),
                                   ptx::permute_bytes(v.word[2], v.word[3], pick), 0x5410);
    }
  }
  // Each lane finds out about one tile; two votes make bits of the answers.
  ATTNJIT_DEVICE void read_classes(const Block& block, int group) {
    const TileUse tile_use = use_of_lane(block, group * 32 + ptx::lane_index());
    active = ptx::warp_ballot(tile_use != TileUse::kSkip);
    partial = ptx::warp_ballot(tile_use == TileUse::kMasked);
    known = group;
  }
};

}  // namespace attnjit::kernel
