#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// KeptKeys (score/kept_keys.cuh) for scores with keys in rows: a word for each of the thread's
// keys, with a bit for each line of scores, which is a query. Features clear bits, and one pass
// drops the scores whose bits are clear.
template <ScoreShape kShape>
struct KeptQueries {
  static_assert(!kShape.queries_in_rows() && kShape.lines() <= 32);
  static constexpr int kKeys = 2 * kShape.row_tiles;  // 8 apart
  uint32 word[kKeys];

  ATTNJIT_DEVICE KeptQueries() {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) word[i] = 0xffffffffu;
  }

  // Keeps the queries of key `i` from `begin` on, and before `end`, both counted from the thread's
  // first query.
  ATTNJIT_DEVICE void from(int i, int begin) { word[i] &= ~ptx::low_bits(lines_before(begin)); }
  ATTNJIT_DEVICE void before(int i, int end) { word[i] &= ptx::low_bits(lines_before(end)); }
  // Drops all queries unless `keeps`.
  ATTNJIT_DEVICE void keep_key(int i, bool keeps) { word[i] = keeps ? word[i] : 0; }
  // Drops a query of it unless `keeps`.
  ATTNJIT_DEVICE void keep_pair(int line, int key, bool keeps) {
    word[key / 8] &= keeps ? 0xffffffffu : ~(1u << line);
  }
  // The score of a key, -inf if its query drops it.
  ATTNJIT_DEVICE float of(float score, int line, int key) const {
    return (word[key / 8] & 1u << line) == 0 ? -ptx::infinity() : score;
  }
  template <class S>
  ATTNJIT_DEVICE void apply(S& scores) const {
    for_each_score<kShape>(scores,
                           [&](float& score, int line, int key) { score = of(score, line, key); });
  }

 private:
  // Lines whose rows lie before `row`: a thread has two of each eight.
  ATTNJIT_DEVICE static int lines_before(int row) {
    constexpr int kEnd = 4 * kShape.lines();
    const int inside = row < 0 ? 0 : row < kEnd ? row : kEnd;
    const int own = inside % 8;
    return inside / 8 * 2 + (own < 2 ? own : 2);
  }
};

}  // namespace attnjit::kernel
