#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/band_params.h"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Keeps query + off - left <= key <= query + off + right, and drops the keys past the end. Open
// sides have no code.
template <ScoreShape kShape, bool kLeft, bool kRight>
struct Band : Feature {
  static constexpr bool kNarrows = true, kSlides = kLeft;

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
    if (params.bottom_right) diagonal = block.bottom_right();
  }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team, const Block& block, KeyRange& keys) {
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
    const int first = tile * kShape.keys();
    bool cut = first + kShape.keys() > end_key(block, block.first_query);
    if constexpr (kLeft) cut |= first < begin_key(block.end_query - 1);
    return cut ? TileUse::kMasked : TileUse::kPlain;
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    const int origin = first_key + block.thread_key;
    for_each_row<kShape>(block, scores, [&, origin](int row, auto for_each_key) {
      const int query = row / kShape.pack_gqa_heads;
      const int end = end_key(block, query) - origin;
      const int begin = kLeft ? begin_key(query) - origin : 0;
      for_each_key([begin, end](float& score, int key) {
        if (key >= end || (kLeft && key < begin)) score = -ptx::infinity();
      });
    });
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    const int origin = first_key + block.thread_key;
    if constexpr (kShape.queries_in_rows()) {
#pragma unroll
      for (int line = 0; line < kShape.lines(); ++line) {
        const int query = (block.thread_row + ScoreShape(kShape).row(line)) / kShape.pack_gqa_heads;
        kept.before(line, end_key(block, query) - origin);
        if constexpr (kLeft) kept.from(line, begin_key(query) - origin);
      }
    } else {
#pragma unroll
      for (int i = 0; i < K::kKeys; ++i) {
        const int key = origin + 8 * i;
        // From the thread's first query to the one on whose diagonal the key lies.
        const int query = key - diagonal - block.thread_row;
        kept.keep_key(i, key < block.kv_len);
        if constexpr (kRight) kept.from(i, query - params.right);
        if constexpr (kLeft) kept.before(i, query + params.left + 1);
      }
    }
  }
};

}  // namespace attnjit::kernel
