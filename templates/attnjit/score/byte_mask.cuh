#pragma once
#include "attnjit/backward_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/byte_mask_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/key_order.cuh"

namespace attnjit::kernel {

// Drops keys by a boolean mask that is read where the caller keeps it: the backward's workspace has
// no room for a copy. Empty tiles are skipped, full ones run without mask code.
template <BackwardConfig kConfig, Extent kExtent, bool kVectorized>
struct ByteMask : Feature {
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr int kRows = kPerPair ? kConfig.warp_queries() / 8 : 1;

  const ByteMaskParams& params;
  const uint8* plane;        // of the head at hand
  const uint8* first_plane;  // of the first head that shares its kv head
  uint64 keep[kRows];        // the thread's eight keys of a row of the span, a byte each

  ATTNJIT_DEVICE explicit ByteMask(const ByteMaskParams& p)
      : params(p), plane(nullptr), first_plane(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    const uint8* batch = params.mask + block.batch * params.batch_stride;
    const int first_head = block.head - block.head % kConfig.gqa_ratio;
    plane = batch + block.head / params.heads_per_plane * params.head_stride;
    first_plane = batch + first_head / params.heads_per_plane * params.head_stride;
  }
  // What of a tile of block_q by block_kv its parts need together.
  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    const int64 mask_plane =
        static_cast<int64>(batch) * params.planes_per_batch + head / params.heads_per_plane;
    bool any = false, all = true;
    constexpr int kRowClasses = kPerPair ? ceil_div(kConfig.block_q, kMaskTile) : 1;
#pragma unroll
    for (int i = 0; i < kRowClasses; ++i) {
      const int row = kPerPair ? q_tile * kConfig.block_q / kMaskTile + i : 0;
      if (row >= params.num_q_tiles) continue;
#pragma unroll
      for (int j = 0; j < ceil_div(kConfig.block_kv, kMaskTile); ++j) {
        const int column = kv_tile * kConfig.block_kv / kMaskTile + j;
        if (column >= params.num_kv_tiles) continue;
        const auto use = static_cast<TileUse>(ptx::load_global(
            params.classes + (mask_plane * params.num_q_tiles + row) * params.num_kv_tiles +
            column));
        any |= use != TileUse::kSkip;
        all &= use == TileUse::kPlain;
      }
    }
    return !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
  }
  // A key that no query of the kv head keeps is dropped here already, so that a NaN stored there
  // stays there.
  ATTNJIT_DEVICE bool reads_key(int key) const {
    if constexpr (kPerPair) return true;
    bool kept = false;
    const uint8* source = first_plane + key * params.key_stride;
    for (int head = 0; head < kConfig.gqa_ratio; head += params.heads_per_plane) {
      kept |= ptx::load_global(source) != 0;
      source += params.head_stride;
    }
    return kept;
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse tile_use) {
    if (kConfig.late == 0 && tile_use == TileUse::kMasked) read(block, first_key);
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    if constexpr (kConfig.late != 0) read(block, first_key);
    for_each_score(scores, [&](float& score, int m, int n, int e) {
      const int offset = KeyOrder::offset(n, e);
      const uint64 span = keep[kPerPair ? 2 * m + e / 2 : 0];
      if ((span >> (8 * offset) & 0xff) == 0) score = -ptx::infinity();
    });
  }

 private:
  ATTNJIT_DEVICE void read(const Block& block, int first_key) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = block.thread_row + 8 * r;
      // Rows past the tensor repeat its last one; they are dead.
      const int last = row < block.num_rows ? row : block.num_rows - 1;
      const uint8* source = plane + (kPerPair ? last * params.query_stride : 0);
      keep[r] = eight_keys(source, first_key + block.thread_key, block.seqlen_kv);
    }
  }
  // The eight keys from `key` on of one row; those past the tensor are 0.
  ATTNJIT_DEVICE uint64 eight_keys(const uint8* row, int key, int seqlen_kv) const {
    if (kVectorized && key + 8 <= seqlen_kv) {
      return ptx::load_global(reinterpret_cast<const uint64*>(row + key));
    }
    uint64 bytes = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (key + i >= seqlen_kv) continue;
      bytes |= static_cast<uint64>(ptx::load_global(row + (key + i) * params.key_stride))
               << (8 * i);
    }
    return bytes;
  }
};

}  // namespace attnjit::kernel
