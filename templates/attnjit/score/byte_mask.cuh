#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/byte_mask_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/mask_classes.cuh"
#include "attnjit/score/operand.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/transposed_operand.cuh"

namespace attnjit::kernel {

// Drops keys by a boolean mask that is read where the caller keeps it: the backward's workspace has
// no room for a copy. Empty tiles are skipped, full ones run without mask code. kLate as for Bias.
template <ScoreShape kShape, Extent kExtent, bool kVectorized, bool kLate>
struct ByteMask : Feature {
  static constexpr int kElementBytes = 1;
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr bool kPerHead = true, kPicksKeys = !kPerPair;
  static constexpr bool kByTile = kPerPair && !kShape.queries_in_rows();
  using Registers =
      TypeIf<kByTile, TransposedByteRegisters<kShape>,
             TypeIf<kShape.queries_in_rows(), ByteRegisters<kShape, kVectorized, kPerPair>,
                    KeyRegisters<kShape, 1>>>;

  const ByteMaskParams& params;
  const uint8* plane;        // of the head at hand
  const uint8* first_plane;  // of the first head that shares its kv head
  Registers keep;
  uint32 tile = 0;  // in shared memory, where the copy engine brings it

  ATTNJIT_DEVICE explicit ByteMask(const ByteMaskParams& p)
      : params(p), plane(nullptr), first_plane(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const uint8* batch = params.mask + block.batch * params.batch_stride;
    const int first_head = block.head - block.head % kShape.gqa_ratio;
    plane = batch + block.head / params.heads_per_plane * params.head_stride;
    first_plane = batch + first_head / params.heads_per_plane * params.head_stride;
  }
  // The use of a tile of block_q by block_kv, by the classes of its parts.
  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    const int64 mask_plane =
        static_cast<int64>(batch) * params.planes_per_batch + head / params.heads_per_plane;
    constexpr int kQueries = kPerPair ? kShape.block_q : 1;
    return united_use<kQueries, kShape.block_kv>(
        params.classes + mask_plane * params.num_q_tiles * params.num_kv_tiles, params.num_q_tiles,
        params.num_kv_tiles, kPerPair ? q_tile * kShape.block_q : 0, kv_tile * kShape.block_kv);
  }
  // A key that no query of the kv head keeps is dropped here already, so that a NaN stored there
  // stays there.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    bool kept = false;
    const uint8* source = first_plane + key * params.key_stride;
    for (int head = 0; head < kShape.gqa_ratio; head += params.heads_per_plane) {
      kept |= ptx::load_global(source) != 0;
      source += params.head_stride;
    }
    return kept;
  }
  ATTNJIT_DEVICE void load_tile(const Block& block, int first_key, const OperandMaps& maps,
                                const OperandTiles& tiles, uint32 full) {
    if constexpr (kByTile) {
      ptx::tensor_load(tiles.mask, maps.mask, full, first_key, block.first_query,
                       block.head / params.heads_per_plane,
                       params.batch_stride == 0 ? 0 : block.batch);
    }
  }
  ATTNJIT_DEVICE void receive_tile(const OperandTiles& tiles) { tile = tiles.mask; }
  ATTNJIT_DEVICE const uint8* row_address(const Block&, int row) const {
    return plane + (kPerPair ? row * params.query_stride : 0);
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if constexpr (!kLate && !kByTile) {
      if (tile_use == TileUse::kMasked) keep.read(*this, block, first_key);
    }
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    if constexpr (kByTile) {
      keep.read(tile, block);
    } else if constexpr (kLate) {
      keep.read(*this, block, first_key);
    }
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (keep.is_zero(line, key)) score = -ptx::infinity();
    });
  }
};

}  // namespace attnjit::kernel
