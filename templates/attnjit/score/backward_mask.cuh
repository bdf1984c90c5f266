#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/prefetch.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/mask_bits.cuh"
#include "attnjit/score/mask_classes.cuh"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Drops keys in a backward by a boolean mask that prepass/mask_to_bits.cuh has converted to bits
// and classified: the bits lie in the order in which the kernel has its scores. Empty tiles are
// skipped, full ones run without mask code. kLate as for Bias.
template <ScoreShape kShape, Extent kExtent, bool kLate>
struct BackwardMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPerHead = true, kPicksKeys = !kPerPair, kHasBits = true;
  static constexpr bool kByKeys = kPerPair && !kShape.queries_in_rows();
  using Bits = TypeIf<kShape.queries_in_rows(), RowBits<kShape, kExtent>,
                      TypeIf<kPerPair, ColumnBits<kShape>, KeyBits<kShape>>>;

  const BitMaskParams& params;
  const uint64* const all_columns;
  const uint32* words = nullptr;        // bits by rows, of the current head
  const uint64* columns = nullptr;      // bits by keys, of the current head
  const uint32* first_words = nullptr;  // bits by rows, of the first head that shares its kv head
  Bits bits;

  ATTNJIT_DEVICE explicit BackwardMask(const BackwardMaskParams& p)
      : params(p.bits), all_columns(p.columns) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const int64 index = plane_of(block.batch, block.head);
    if constexpr (kByKeys) {
      columns = all_columns + index * params.num_q_tiles * params.padded_keys();
    } else {
      words = words_of(index);
    }
    if constexpr (!kPerPair) {
      first_words = words_of(plane_of(block.batch, block.head - block.head % kShape.gqa_ratio));
    }
  }
  // The use of a tile of block_q by block_kv, by the classes that it touches.
  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    constexpr int kQueries = kPerPair ? kShape.block_q : 1;
    return united_use<kQueries, kShape.block_kv>(
        params.classes + plane_of(batch, head) * params.classes_per_plane, params.num_q_tiles,
        params.num_kv_tiles, kPerPair ? q_tile * kShape.block_q : 0, kv_tile * kShape.block_kv);
  }
  // A key that no query of the kv head keeps is not read, so that a NaN there reaches nothing.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    const auto* source = reinterpret_cast<const uint8*>(first_words) + mask_byte(key);
    uint32 kept = ptx::load_global(source) >> (key & 7);
    if constexpr (kShape.gqa_ratio > 1) {
      for (int head = params.heads_per_plane; head < kShape.gqa_ratio;
           head += params.heads_per_plane) {
        source += params.words_per_plane * 4;
        kept |= ptx::load_global(source) >> (key & 7);
      }
    }
    return (kept & 1) != 0;
  }
  // Only where heads do not share keys: it gained 2 % there and lost 1 % with shared keys (H100,
  // 2026-11-26).
  ATTNJIT_DEVICE void prefetch_tile(const Block& block, int first_key, const TensorMap&) const {
    if constexpr (kByKeys && kShape.gqa_ratio == 1) {
      const int first_tile = block.first_query / kMaskTile, keys = params.padded_keys();
      const uint64* tile = columns + static_cast<int64>(first_tile) * keys + first_key;
#pragma unroll
      for (int i = 0; i < kShape.block_q / kMaskTile; ++i, tile += keys) {
        if (first_tile + i >= params.num_q_tiles) continue;
        ptx::bulk_prefetch_l2(tile, kShape.block_kv * 8);
      }
    }
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if constexpr (!kLate) {
      if (tile_use == TileUse::kMasked) bits.read(*this, block, first_key);
    }
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    if constexpr (kLate) bits.read(*this, block, first_key);
    bits.settle(block, first_key);
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (bits.is_zero(line, key)) score = -ptx::infinity();
    });
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    if constexpr (kLate) bits.read(*this, block, first_key);
    bits.settle(block, first_key);
    bits.keep(kept);
  }

 private:
  ATTNJIT_DEVICE int64 plane_of(int batch, int head) const {
    const int of_head = params.planes_per_batch == 1 ? 0 : head / params.heads_per_plane;
    return static_cast<int64>(batch) * params.planes_per_batch + of_head;
  }
  ATTNJIT_DEVICE const uint32* words_of(int64 index) const {
    return params.words + index * params.words_per_plane;
  }
};

}  // namespace attnjit::kernel
