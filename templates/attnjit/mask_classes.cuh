#pragma once
#include "attnjit/mask_classes_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/tile_use.h"

// The mask prepass of the backward: tells of each tile of kMaskTile queries by kMaskTile keys
// whether all, some or none of its keys are kept. One thread block per tile.
namespace attnjit::kernel {

template <MaskClassesConfig kConfig>
struct MaskClasses {
  static constexpr int kPieces = kMaskTile / 16;  // of 16 keys in a row of the tile

  const MaskClassesParams& params;

  // Looks at the 16 keys from `key` on of one row.
  ATTNJIT_DEVICE void look(const uint8* row, int key, bool& any, bool& all) const {
    if (kConfig.vectorized && key + 16 <= params.seqlen_kv) {
      const ptx::Vector16 v = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(row + key));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        any |= v.word[i] != 0;
        // Whether a byte is zero: the borrow of subtracting 1 reaches its high bit.
        all &= ((v.word[i] - 0x01010101u) & ~v.word[i] & 0x80808080u) == 0;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (key + i >= params.seqlen_kv) continue;
      const bool keep = ptx::load_global(row + (key + i) * params.key_stride) != 0;
      any |= keep;
      all &= keep;
    }
  }

  ATTNJIT_DEVICE void run() const {
    const uint32 tile = ptx::block_index();
    const int kv_tile = static_cast<int>(tile % params.num_kv_tiles);
    const uint32 rest = tile / params.num_kv_tiles;
    const int q_tile = static_cast<int>(rest % params.num_q_tiles);
    const int64 plane = rest / params.num_q_tiles;
    const uint8* mask = params.mask + plane / params.num_heads * params.batch_stride +
                        plane % params.num_heads * params.head_stride;
    bool any = false, all = true;
    for (int i = ptx::thread_index(); i < kConfig.rows() * kPieces; i += kConfig.num_threads()) {
      const int query = q_tile * kConfig.rows() + i / kPieces;
      const int key = kv_tile * kMaskTile + i % kPieces * 16;
      if (query >= params.seqlen_q) continue;
      look(mask + query * params.query_stride, key, any, all);
    }
    any = ptx::block_any(any);
    all = ptx::block_all(all);
    if (ptx::thread_index() == 0) {
      const TileUse use = !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
      ptx::store_global(params.classes + tile, static_cast<uint8>(use));
    }
  }
};

template <MaskClassesConfig kConfig>
ATTNJIT_DEVICE void mask_classes(const MaskClassesParams& params) {
  MaskClasses<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
