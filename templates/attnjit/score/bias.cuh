#pragma once
#include "attnjit/forward_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/operand_params.h"
#include "attnjit/tile/key_order.cuh"

namespace attnjit::kernel {

struct BiasConfig {
  DType dtype;
  Extent extent;    // kPerKey or kPerPair
  bool vectorized;  // eight neighbouring keys are an aligned 16-byte (fp32: two) load
};

// Adds a bias that varies over keys. Each thread reads the eight neighbouring keys that it holds
// of every 32 (tile/key_order.cuh) straight into registers, before the scores are computed.
template <ForwardConfig kConfig, BiasConfig kBias>
struct Bias : Feature {
  static constexpr bool kPerRow = kBias.extent == Extent::kPerPair || kConfig.pack_heads;
  static constexpr int kElementBytes = element_bytes(kBias.dtype);
  // Rows of the bias that a thread needs: its rows, or one that they all share.
  static constexpr int kRows = kPerRow ? 2 * kConfig.row_tiles() : 1;
  static constexpr int kSpans = kConfig.block_kv / 32;
  static constexpr int kWords = 2 * kElementBytes;  // 32-bit words of eight elements

  const OperandParams& params;
  const uint8* plane;  // of the block's head, or of its batch element where heads are packed
  int tile_key;        // first key of the tile at hand
  uint32 word[kRows][kSpans][kWords];

  ATTNJIT_DEVICE explicit Bias(const OperandParams& p) : params(p), plane(nullptr), tile_key(0) {}

  ATTNJIT_DEVICE const uint8* head_of(const uint8* base, int head) const {
    return base + head / params.heads_per_plane * params.head_stride * kElementBytes;
  }
  ATTNJIT_DEVICE void begin(const Block& block) {
    plane =
        static_cast<const uint8*>(params.data) + block.batch * params.batch_stride * kElementBytes;
    if constexpr (!kConfig.pack_heads) plane = head_of(plane, block.head);
  }
  ATTNJIT_DEVICE const uint8* row_address(const Block& block, int row) const {
    if constexpr (!kPerRow) return plane;
    // Rows past the tensor repeat its last one; their results are never stored.
    const RowOwner owner =
        owner_of<kConfig>(block, row < block.num_rows ? row : block.num_rows - 1);
    const uint8* head = kConfig.pack_heads ? head_of(plane, owner.head) : plane;
    return head + owner.query * params.query_stride * kElementBytes;
  }

  // The eight keys from `key` on of one row; keys past the tensor are not read.
  ATTNJIT_DEVICE void fetch_span(uint32 (&span)[kWords], const uint8* row, int key, int seqlen_kv) {
    if (kBias.vectorized && key + 8 <= seqlen_kv) {
      const auto* source =
          reinterpret_cast<const ptx::Vector16*>(row + static_cast<int64>(key) * kElementBytes);
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i) {
        const ptx::Vector16 v = ptx::load_global(source + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) span[4 * i + j] = v.word[j];
      }
      return;
    }
    const int64 step = params.key_stride * kElementBytes;
    const uint8* address = row + key * step;
#pragma unroll
    for (int i = 0; i < kWords; ++i) span[i] = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i, address += step) {
      if (key + i >= seqlen_kv) continue;
      if constexpr (kElementBytes == 4) {
        span[i] = ptx::load_global(reinterpret_cast<const uint32*>(address));
      } else {
        span[i / 2] |=
            static_cast<uint32>(ptx::load_global(reinterpret_cast<const uint16*>(address)))
            << (16 * (i & 1));
      }
    }
  }
  ATTNJIT_DEVICE void read(const Block& block) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint8* row = row_address(block, block.thread_row + 8 * r);
#pragma unroll
      for (int s = 0; s < kSpans; ++s) {
        fetch_span(word[r][s], row, tile_key + 32 * s + block.thread_key, block.seqlen_kv);
      }
    }
  }

  // 16-byte loads start before the scores are computed and arrive meanwhile. Loads of single
  // elements wait until then: there are too many to keep their registers through the product.
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse) {
    tile_key = first_key;
    if constexpr (kBias.vectorized) read(block);
  }

  // The bias at key offset `offset` of the thread's keys, in fetched row r.
  ATTNJIT_DEVICE float value(int r, int offset) const {
    const int i = offset & 31;
    if constexpr (kElementBytes == 4) {
      return ptx::as_float(word[r][offset >> 5][i]);
    } else {
      const uint32 pair = word[r][offset >> 5][i / 2];
      return ptx::widen<kBias.dtype>(static_cast<uint16>(pair >> (16 * (i & 1))));
    }
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores) {
    if constexpr (!kBias.vectorized) read(block);
    for_each_score(scores, [&](float& score, int m, int n, int e) {
      score += value(kPerRow ? 2 * m + e / 2 : 0, KeyOrder::offset(n, e));
    });
  }
};

}  // namespace attnjit::kernel
