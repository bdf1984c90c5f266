#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/byte_mask_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/operand.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/transposed_operand.cuh"

namespace attnjit::kernel {

// Drops keys by a boolean mask with one row of the keys of all packed sequences, of either pass,
// read from the caller's memory once the scores are complete. Its tiles have no classes, because a
// sequence's keys begin anywhere in them.
template <ScoreShape kShape>
struct PackedKeysMask : Feature {
  static constexpr int kElementBytes = 1;
  static constexpr bool kPerHead = true, kPicksKeys = true;
  using Registers = TypeIf<kShape.queries_in_rows(), ByteRegisters<kShape, false>,
                           KeyRegisters<kShape, kElementBytes>>;

  const ByteMaskParams& params;
  const uint8* plane;        // of the current head, from the sequence's keys on
  const uint8* first_plane;  // of the first head that shares its kv head
  Registers keep;

  ATTNJIT_DEVICE explicit PackedKeysMask(const ByteMaskParams& p)
      : params(p), plane(nullptr), first_plane(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const uint8* batch = params.mask + block.batch * params.batch_stride;
    const int first_head = block.head - block.head % kShape.gqa_ratio;
    plane = batch + block.head / params.heads_per_plane * params.head_stride;
    first_plane = batch + first_head / params.heads_per_plane * params.head_stride;
    plane += block.kv_begin * params.key_stride;
    first_plane += block.kv_begin * params.key_stride;
  }
  ATTNJIT_DEVICE TileUse use(const Block&, int) { return TileUse::kMasked; }
  ATTNJIT_DEVICE TileUse tile_use(int, int, int, int) const { return TileUse::kMasked; }
  // A key that no query of the kv head keeps is not read, so that a NaN there reaches nothing.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    bool kept = false;
    const uint8* source = first_plane + key * params.key_stride;
    for (int head = 0; head < kShape.gqa_ratio; head += params.heads_per_plane) {
      kept |= ptx::load_global(source) != 0;
      source += params.head_stride;
    }
    return kept;
  }
  ATTNJIT_DEVICE const uint8* row_address(const Block&, int) const { return plane; }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    keep.read(*this, block, first_key);
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (keep.is_zero(line, key)) score = -ptx::infinity();
    });
  }
};

}  // namespace attnjit::kernel
