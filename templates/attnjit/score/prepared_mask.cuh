#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/mask_bits.cuh"
#include "attnjit/score/mask_classes.cuh"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Drops keys in a backward by a boolean mask that was packed to bits and classified before the call
// (mask_pack.cuh): in the place of ByteMask, with bits in the order in which the kernel has its
// scores. kLate as for Bias.
template <ScoreShape kShape, Extent kExtent, bool kLate>
struct PreparedMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPerHead = true, kPicksKeys = !kPerPair;
  static constexpr bool kByKeys = kPerPair && !kShape.queries_in_rows();
  using Bits = TypeIf<kShape.queries_in_rows(), RowBits<kShape, kExtent>, KeyBits<kShape, kExtent>>;

  const PreparedMaskParams& prepared;
  const PackedMaskParams& params;
  const uint8* bytes;        // bits of the head at hand, in the order of the scores
  const uint8* first_plane;  // by rows, of the first head that shares its kv head
  Bits bits;

  ATTNJIT_DEVICE explicit PreparedMask(const PreparedMaskParams& p)
      : prepared(p), params(p.packed), bytes(nullptr), first_plane(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const int64 index = plane_of(block.batch, block.head);
    first_plane = rows_of(plane_of(block.batch, block.head - block.head % kShape.gqa_ratio));
    if constexpr (kByKeys) {
      bytes =
          reinterpret_cast<const uint8*>(prepared.key_words + index * prepared.key_words_per_plane);
    } else {
      bytes = rows_of(index);
    }
  }
  // The use of a tile of block_q by block_kv, by the classes of its parts.
  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    constexpr int kQueries = kPerPair ? kShape.block_q : 1;
    return united_use<kQueries, kShape.block_kv>(
        params.classes + plane_of(batch, head) * params.classes_per_plane, params.num_q_tiles,
        params.num_kv_tiles, kPerPair ? q_tile * kShape.block_q : 0, kv_tile * kShape.block_kv);
  }
  // A key that no query of the kv head keeps is dropped here already, so that a NaN stored there
  // stays there.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    uint32 kept = 0;
    const uint8* source = first_plane + key / 8;
    for (int head = 0; head < kShape.gqa_ratio; head += params.heads_per_plane) {
      kept |= ptx::load_global(source) >> (key & 7);
      source += params.words_per_plane * 4;
    }
    return (kept & 1) != 0;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if constexpr (!kLate) {
      if (tile_use == TileUse::kMasked) bits.read(*this, block, first_key);
    }
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    if constexpr (kLate) bits.read(*this, block, first_key);
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (bits.is_zero(line, key)) score = -ptx::infinity();
    });
  }

 private:
  ATTNJIT_DEVICE int64 plane_of(int batch, int head) const {
    return static_cast<int64>(batch) * params.planes_per_batch + head / params.heads_per_plane;
  }
  ATTNJIT_DEVICE const uint8* rows_of(int64 index) const {
    return reinterpret_cast<const uint8*>(params.words + index * params.words_per_plane);
  }
};

}  // namespace attnjit::kernel
