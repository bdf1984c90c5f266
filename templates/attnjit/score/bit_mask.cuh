#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/mask_bits.cuh"
#include "attnjit/score/mask_classes.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/tile/tile_votes.cuh"

namespace attnjit::kernel {

// Drops keys by a boolean mask that prepass/mask_to_bits.cuh has converted to bits and classified.
// Empty tiles are skipped before their K and V are read; full ones run without mask code. With
// pack_gqa the heads of a kv head must share the mask.
template <ScoreShape kShape, Extent kExtent>
struct BitMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPicksKeys = !kPerPair;
  static constexpr bool kAwaits = true;

  const BitMaskParams& params;
  const uint32* words;   // of the block's plane
  const uint8* classes;  // of that plane, from the first row of them that the block touches
  int class_rows;        // from there on
  TileVotes votes;
  RowBits<kShape, kExtent> bits;

  ATTNJIT_DEVICE explicit BitMask(const BitMaskParams& p)
      : params(p), words(nullptr), classes(nullptr), class_rows(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const int64 plane = static_cast<int64>(block.batch) * params.planes_per_batch +
                        block.head / params.heads_per_plane;
    words = params.words + plane * params.words_per_plane;
    // Computed once and not for each group of tiles: registers are scarce in the loop.
    const int first_class = kPerPair ? block.first_query / kMaskTile : 0;
    classes = params.classes + plane * params.classes_per_plane +
              static_cast<int64>(first_class) * params.num_kv_tiles;
    class_rows = params.num_q_tiles - first_class;
    votes.begin();
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    return votes.use(tile, [&](int lanes_tile) { return use_of_lane(block, lanes_tile); });
  }
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) const {
    constexpr int kQueries = kPerPair ? kShape.block_q / kShape.pack_gqa_heads : 1;
    return united_use<kQueries, kShape.block_kv>(classes, class_rows, params.num_kv_tiles,
                                                 kPerPair ? block.first_query % kMaskTile : 0,
                                                 tile * kShape.block_kv);
  }
  // A key that no query keeps is not read, so that a NaN there reaches nothing.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    const auto* const bytes = reinterpret_cast<const uint8*>(words);
    return (ptx::load_global_written(bytes + mask_byte(key)) >> (key & 7) & 1) != 0;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if (tile_use == TileUse::kMasked) bits.read(*this, block, first_key);
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    bits.settle(block, first_key);
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (bits.is_zero(line, key)) score = -ptx::infinity();
    });
  }

  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    bits.settle(block, first_key);
    bits.keep(kept);
  }
};

}  // namespace attnjit::kernel
