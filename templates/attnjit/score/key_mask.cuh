#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/byte_mask_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/operand.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/tile/tile_votes.cuh"

namespace attnjit::kernel {

// Drops keys by a boolean mask over keys, read where the caller keeps it. Few rows read such a
// mask: a kernel that converts it first would take longer than reading the bytes. Empty tiles are
// skipped before their K and V are read; full ones run without mask code. Heads of pack_gqa share
// the mask.
template <ScoreShape kShape, bool kVectorized>
struct KeyMask : Feature {
  static constexpr bool kPicksKeys = true;

  const ByteMaskParams& params;
  const uint8* plane;  // of the block
  TileVotes votes;
  ByteRegisters<kShape, kVectorized> kept;

  ATTNJIT_DEVICE explicit KeyMask(const ByteMaskParams& p) : params(p), plane(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    plane = params.mask + block.batch * params.batch_stride +
            block.head / params.heads_per_plane * params.head_stride;
    votes.begin();
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    return votes.use(tile, [&](int lanes_tile) { return use_of_bytes(block, lanes_tile); });
  }
  // A key that no query keeps is not read, so that a NaN there reaches nothing.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    return ptx::load_global(plane + key * params.key_stride) != 0;
  }
  ATTNJIT_DEVICE const uint8* row_address(const Block&, int) const { return plane; }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if (tile_use == TileUse::kMasked) kept.read(*this, block, first_key);
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block&, S& scores, int) {
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      if (kept.is_zero(line, key)) score = -ptx::infinity();
    });
  }

 private:
  // Tiles that vectors do not cover count as masked: kernels inline this code several times, and
  // the first call waits for all of it to be loaded.
  ATTNJIT_DEVICE TileUse use_of_bytes(const Block& block, int tile) const {
    const int first = tile * kShape.block_kv;
    if (!kVectorized || first + kShape.block_kv > block.operand_keys) return TileUse::kMasked;
    const auto* const source = reinterpret_cast<const ptx::Vector16*>(plane + first);
    bool any = false, all = true;
#pragma unroll
    for (int i = 0; i < kShape.block_kv / 16; ++i) {
      const ptx::Vector16 bytes = ptx::load_global(source + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        any |= bytes.word[j] != 0;
        all &= !has_zero_byte(bytes.word[j]);
      }
    }
    return !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
  }
  // A byte minus 1 gains the highest bit only if the byte was 0, or if a lower byte was 0 and
  // borrowed.
  ATTNJIT_DEVICE static bool has_zero_byte(uint32 bytes) {
    return ((bytes - 0x01010101u) & ~bytes & 0x80808080u) != 0;
  }
};

}  // namespace attnjit::kernel
