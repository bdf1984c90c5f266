#pragma once
#include "attnjit/mask_classes_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/mask_tile.cuh"

// The mask prepass of the backward: tells of each tile of kMaskTile queries by kMaskTile keys
// whether all, some or none of its keys are kept.
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
    const MaskTile tile(params);
    bool any = false, all = true;
    for (int i = ptx::thread_index(); i < kConfig.rows() * kPieces; i += kConfig.num_threads()) {
      const int query = tile.q_tile * kConfig.rows() + i / kPieces;
      const int key = tile.kv_tile * kMaskTile + i % kPieces * 16;
      if (query >= params.seqlen_q) continue;
      look(tile.mask + query * params.query_stride, key, any, all);
    }
    tile.classify(params.classes, any, all);
  }
};

template <MaskClassesConfig kConfig>
ATTNJIT_DEVICE void mask_classes(const MaskClassesParams& params) {
  MaskClasses<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
