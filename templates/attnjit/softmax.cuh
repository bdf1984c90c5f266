#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/score/feature.cuh"

namespace attnjit::kernel {

// Softmax over a row that arrives tile by tile: a running maximum, and a correction of what was
// summed under an older one (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; FlashAttention). Another policy with the same verbs can take its place.
template <int kRowTiles>
struct OnlineSoftmax {
  // The running maximum in log2 units, -inf before the first kept key; over all lanes of the quad.
  // It is the rounded product that every exponent of its time was taken against: a correction
  // from anything else would weigh tiles differently where scores are large.
  float reference[kRowTiles][2];
  float sum[kRowTiles][2];  // of this lane's keys only, until finish()

  ATTNJIT_DEVICE void begin() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        reference[m][h] = -ptx::infinity();
        sum[m][h] = 0.0f;
      }
    }
  }

  // Turns the scores of a tile into probabilities 2^(exponent_scale score - reference) and
  // rescales `out`, which holds fragments of the same rows.
  template <int kGroups, int kOutGroups>
  ATTNJIT_DEVICE void step(Scores<kRowTiles, kGroups>& scores, Scores<kRowTiles, kOutGroups>& out,
                           float exponent_scale) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float highest = -ptx::infinity();
#pragma unroll
        for (int n = 0; n < kGroups; ++n) {
          highest = fmaxf(highest, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
        }
        highest = ptx::quad_max(highest);
        const float before = reference[m][h];
        if (highest > kDeadScore) reference[m][h] = fmaxf(before, highest * exponent_scale);
        // A row without a kept key so far has no reference: -inf - -inf would be NaN.
        const float origin = reference[m][h] == -ptx::infinity() ? 0.0f : reference[m][h];
        float total = 0.0f;
#pragma unroll
        for (int n = 0; n < kGroups; ++n) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            scores[m][n][e] = ptx::exp2_approx(scores[m][n][e] * exponent_scale - origin);
            total += scores[m][n][e];
          }
        }
        const float correction = ptx::exp2_approx(before - origin);
        sum[m][h] = sum[m][h] * correction + total;
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          out[m][n][2 * h] *= correction;
          out[m][n][2 * h + 1] *= correction;
        }
      }
    }
  }

  // The state of a row after the last tile.
  ATTNJIT_DEVICE RowState finish(int m, int h) const {
    return {reference[m][h] * kLn2, ptx::quad_sum(sum[m][h])};
  }
};

}  // namespace attnjit::kernel
