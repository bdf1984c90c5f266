#pragma once
#include "attnjit/forward_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/band_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/key_order.cuh"

namespace attnjit::kernel {

// Keeps query + off - left <= key <= query + off + right, and drops the keys past the end. The
// sides that are open are not compiled.
template <ForwardConfig kConfig, bool kLeft, bool kRight>
struct Band : Feature {
  const BandParams& params;
  int diagonal;  // off: key of query 0 on the diagonal

  ATTNJIT_DEVICE explicit Band(const BandParams& p) : params(p), diagonal(0) {}

  // First and one past the last key that `query` sees.
  ATTNJIT_DEVICE int begin_key(int query) const { return query + diagonal - params.left; }
  ATTNJIT_DEVICE int end_key(const Block& block, int query) const {
    if constexpr (!kRight) return block.kv_len;
    const int end = query + diagonal + params.right + 1;
    return end < block.kv_len ? end : block.kv_len;
  }

  ATTNJIT_DEVICE void begin(const Block& block) {
    if (params.bottom_right) diagonal = block.kv_len - block.query_len;
  }
  ATTNJIT_DEVICE void narrow(const Block& block, KeyRange& keys) {
    if (block.end_query <= block.first_query) {
      keys.end = keys.begin;
      return;
    }
    const int end = end_key(block, block.end_query - 1);
    if (end < keys.end) keys.end = end;
    if constexpr (kLeft) {
      const int first = begin_key(block.first_query);
      if (first > keys.begin) keys.begin = first;
    }
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    const int first = tile * kConfig.block_kv;
    bool cut = first + kConfig.block_kv > end_key(block, block.first_query);
    if constexpr (kLeft) cut |= first < begin_key(block.end_query - 1);
    return cut ? TileUse::kMasked : TileUse::kPlain;
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    const int origin = first_key + block.thread_key;
#pragma unroll
    for (int m = 0; m < kConfig.row_tiles(); ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = (block.thread_row + 16 * m + 8 * h) / kConfig.packed_heads();
        const int end = end_key(block, query) - origin;
        const int begin = kLeft ? begin_key(query) - origin : 0;
#pragma unroll
        for (int n = 0; n < kConfig.block_kv / 8; ++n) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            const int key = KeyOrder::offset(n, e);
            if (key >= end || (kLeft && key < begin)) scores[m][n][e] = -ptx::infinity();
          }
        }
      }
    }
  }
};

}  // namespace attnjit::kernel
