#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// Drops the keys past the end. Columns past it must be -inf, not zero scores: exp(0 - max)
// overflows when every real score is far below zero.
template <ScoreShape kShape>
struct Length : Feature {
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team, const Block& block, KeyRange& keys) {
    if (block.end_query <= block.first_query) keys.end = keys.begin;
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    return (tile + 1) * kShape.keys() > block.kv_len ? TileUse::kMasked : TileUse::kPlain;
  }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    const int end = block.kv_len - first_key - block.thread_key;
    for_each_score<kShape>(scores, [&](float& score, int, int key) {
      if (key >= end) score = -ptx::infinity();
    });
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    const int end = block.kv_len - first_key - block.thread_key;
    if constexpr (kShape.queries_in_rows()) {
#pragma unroll
      for (int line = 0; line < kShape.lines(); ++line) kept.before(line, end);
    } else {
#pragma unroll
      for (int i = 0; i < K::kKeys; ++i) kept.keep_key(i, 8 * i < end);
    }
  }
};

}  // namespace attnjit::kernel
