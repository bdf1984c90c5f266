#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/permute.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/packed_mask_params.h"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Drops keys by a boolean mask that mask_pack.cuh has packed to bits and classified by tile.
// Empty tiles are skipped before their K and V are read; full ones run without mask code. Packed
// heads share the mask: one that varies over the heads of a kv head is not for a config that packs.
template <ScoreShape kShape, Extent kExtent>
struct PackedMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPicksKeys = !kPerPair;
  static constexpr int kRows = kPerPair ? kShape.lines() : 1;
  static constexpr int kSpans = kShape.keys() / 32;

  const PackedMaskParams& params;
  const uint8* bytes;    // words of the block's plane; byte i holds keys 8 i to 8 i + 7
  const uint8* classes;  // of the block's row of tiles
  int known;             // the group of 32 tiles whose classes are at hand, or -1
  uint32 active, partial;
  // The thread's eight keys of each span: a word a span, or for keep() a byte.
  static constexpr bool kBytes = kShape.strided_keys;
  uint32 keep_words[kRows][kBytes ? ceil_div(kSpans, 4) : kSpans];

  ATTNJIT_DEVICE explicit PackedMask(const PackedMaskParams& p)
      : params(p), bytes(nullptr), classes(nullptr), known(-1), active(0), partial(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const int64 plane = static_cast<int64>(block.batch) * params.planes_per_batch +
                        block.head / params.heads_per_plane;
    bytes = reinterpret_cast<const uint8*>(params.words + plane * params.words_per_plane);
    const int64 row = kPerPair ? block.first_row / kShape.block_q : 0;
    classes = params.classes + plane * params.classes_per_plane + row * params.num_kv_tiles;
    known = -1;
  }
  ATTNJIT_DEVICE TileUse use(const Block&, int tile) {
    if (tile / 32 != known) read_classes(tile / 32);
    const uint32 bit = 1u << (tile & 31);
    if ((active & bit) == 0) return TileUse::kSkip;
    return (partial & bit) != 0 ? TileUse::kMasked : TileUse::kPlain;
  }
  ATTNJIT_DEVICE TileUse use_of_lane(const Block&, int tile) const {
    return static_cast<TileUse>(ptx::load_global(classes + tile));
  }
  // A key that no query keeps is dropped here already, so that a NaN stored there stays there.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    return (ptx::load_global(bytes + key / 8) >> (key & 7) & 1) != 0;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if (tile_use != TileUse::kMasked) return;
    const int byte = (first_key + block.thread_key) / 8;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = block.thread_row + kShape.row(r);
      // Rows past the tensor repeat its last one; their results are never stored.
      const int num_rows = block.operand_queries * kShape.packed_heads;
      const int last = row < num_rows ? row : num_rows - 1;
      const int64 query = kPerPair ? last / kShape.packed_heads : 0;
      if constexpr (kBytes) {
        gather(keep_words[r], bytes + query * params.words_per_row * 4 + first_key / 8,
               block.thread_key / 8);
      } else {
#pragma unroll
        for (int s = 0; s < kSpans; ++s) {
          keep_words[r][s] =
              ptx::load_global(bytes + query * params.words_per_row * 4 + byte + 4 * s);
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
  // Of each of a row's words of a tile, the byte that is the thread's; byte s of the result is that
  // of span s.
  template <int kWords>
  ATTNJIT_DEVICE static void gather(uint32 (&kept)[kWords], const uint8* words, int byte) {
    const uint32 pick = static_cast<uint32>(byte) * 0x11 + 0x40;  // the byte of two words
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      ptx::Vector16 v{};
      if constexpr (kSpans % 4 == 0) {
        v = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(words) + i);
      } else {
#pragma unroll
        for (int s = 4 * i; s < kSpans; ++s) {
          v.word[s - 4 * i] = ptx::load_global(reinterpret_cast<const uint32*>(words) + s);
        }
      }
      kept[i] = ptx::permute_bytes(ptx::permute_bytes(v.word[0], v.word[1], pick),
                                   ptx::permute_bytes(v.word[2], v.word[3], pick), 0x5410);
    }
  }
  // Each lane reads one class; two votes make them bits.
  ATTNJIT_DEVICE void read_classes(int group) {
    const int tile = group * 32 + ptx::lane_index();
    const int tile_use = tile < params.num_kv_tiles ? ptx::load_global(classes + tile) : 0;
    active = ptx::warp_ballot(tile_use != static_cast<int>(TileUse::kSkip));
    partial = ptx::warp_ballot(tile_use == static_cast<int>(TileUse::kMasked));
    known = group;
  }
};

}  // namespace attnjit::kernel
