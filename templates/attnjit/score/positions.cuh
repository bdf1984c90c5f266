#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/score/block.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/tile/fragments.cuh"

// Loops over a thread's scores by position: a line, which is one of its rows, and a key.
namespace attnjit::kernel {

// visit(score, line, key) for each score.
template <ScoreShape kShape, int kRowTiles, int kGroups, class Visit>
ATTNJIT_DEVICE void for_each_score(Fragments<kRowTiles, kGroups>& scores, Visit visit) {
  static_assert(kRowTiles == kShape.row_tiles && kGroups == kShape.groups);
  scores.for_each([&](float& score, int m, int n, int e) {
    visit(score, ScoreShape(kShape).line(m, n, e), ScoreShape(kShape).key(m, n, e));
  });
}

// visit(row, for_each_key) for each of the thread's rows, where for_each_key(visit) calls
// visit(score, key) for each of its scores.
template <ScoreShape kShape, int kRowTiles, int kGroups, class Visit>
ATTNJIT_DEVICE void for_each_row(const Block& block, Fragments<kRowTiles, kGroups>& scores,
                                 Visit visit) {
  static_assert(kRowTiles == kShape.row_tiles && kGroups == kShape.groups);
  if constexpr (kShape.queries_in_rows()) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        visit(block.thread_row + 16 * m + 8 * h, [&scores, m, h](auto visit_key) {
#pragma unroll
          for (int n = 0; n < kGroups; ++n) {
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; ++e) {
              visit_key(scores[m][n][e], ScoreShape(kShape).key(m, n, e));
            }
          }
        });
      }
    }
  } else {
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        visit(block.thread_row + 8 * n + c, [&scores, n, c](auto visit_key) {
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
            for (int e = c; e < 4; e += 2) {
              visit_key(scores[m][n][e], ScoreShape(kShape).key(m, n, e));
            }
          }
        });
      }
    }
  }
}

}  // namespace attnjit::kernel
