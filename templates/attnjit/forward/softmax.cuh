#pragma once
#include "attnjit/forward/softmax_policy.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/fragments.cuh"

namespace attnjit::kernel {

// The probabilities of one thread, rounded and packed as the operand of P V: [row tile][column
// group][row h], the two neighbouring columns of a group in one word.
template <int kRowTiles, int kGroups>
using Probabilities = uint32[kRowTiles][kGroups][2];

// Softmax over a row that arrives tile by tile: a running maximum, and a correction of what was
// summed under an older one (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; FlashAttention). `exponent_scale` turns scores into exponents of 2.
template <DType kDType, int kRowTiles>
struct RunningMaxSoftmax {
  // The score that exponents are taken against, the same in all lanes of the quad: the running
  // maximum, -inf before the first kept key.
  RowValues<kRowTiles> reference;
  // Of this lane's probabilities before they are rounded, until finish(): lse is of these.
  RowValues<kRowTiles> sum;

  ATTNJIT_DEVICE void begin(float) { begin_at(-ptx::infinity()); }

  // Turns the scores of a tile into probabilities, 2^(exponent_scale (score - reference)). Where a
  // row's reference may have changed, correct(m, h, factor) tells what its output so far, which was
  // summed under the one before, is to be multiplied by. Differences of scores are exact where they
  // matter, so scores may be as large as fp32 allows.
  template <int kGroups, class Correct>
  ATTNJIT_DEVICE void step(const Fragments<kRowTiles, kGroups>& scores,
                           Probabilities<kRowTiles, kGroups>& probabilities, float exponent_scale,
                           Correct correct) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float highest = ptx::quad_max(scores.row_max(m, h));
        const float before = reference[m][h];
        if (highest * exponent_scale > kDeadScore * kLog2E) {
          reference[m][h] = fmaxf(before, highest);
        }
        // A row without a kept key so far has no reference: -inf - -inf would be NaN.
        const float origin = reference[m][h] == -ptx::infinity() ? 0.0f : reference[m][h];
        const float correction = ptx::exp2_approx((before - origin) * exponent_scale);
        const float total = exponentiate(scores[m], probabilities[m], h, [&](float score) {
          return (score - origin) * exponent_scale;
        });
        sum[m][h] = fmaf(sum[m][h], correction, total);
        correct(m, h, correction);
      }
    }
  }

  // The state of a row after the last tile. `score_scale` turns scores into those of the row's lse.
  ATTNJIT_DEVICE RowState finish(int m, int h, float score_scale) const {
    const float total = ptx::quad_sum(sum[m][h]);
    return {reference[m][h] * score_scale, total, total};
  }

 protected:
  ATTNJIT_DEVICE void begin_at(float start) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        reference[m][h] = start;
        sum[m][h] = 0.0f;
      }
    }
  }
  // The probabilities of row h, 2^exponent_of(score); returns the sum of this lane's.
  template <int kGroups, class ExponentOf>
  ATTNJIT_DEVICE static float exponentiate(const float (&scores)[kGroups][4],
                                           uint32 (&probabilities)[kGroups][2], int h,
                                           ExponentOf exponent_of) {
    float total = 0.0f;
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float low = ptx::exp2_approx(exponent_of(scores[n][2 * h]));
      const float high = ptx::exp2_approx(exponent_of(scores[n][2 * h + 1]));
      total += low;
      total += high;
      probabilities[n][h] = ptx::pack<kDType>(low, high);
    }
    return total;
  }
};

// The same without a maximum in most tiles. Softmax needs no maximum, only a reference that keeps
// its exponentials in range; the one of an earlier tile nearly always does. So a tile is
// exponentiated against the current reference, and its row sums tell whether that went well: a
// sum beyond the limit (an infinity or NaN where a row has no reference yet included) makes the
// warp take the exact step above, from the scores, which are still there. No maximum, no shuffle
// and no rescaling of `out` otherwise.
template <DType kDType, int kRowTiles>
struct MaxFreeSoftmax : RunningMaxSoftmax<kDType, kRowTiles> {
  using Exact = RunningMaxSoftmax<kDType, kRowTiles>;
  // Every probability is at most its lane's sum. bf16 has the exponents of fp32, and 2^60 leaves
  // room for the products and sums; fp16 ends at 65504.
  static constexpr float kLimit = kDType == DType::kBFloat16 ? 0x1p60f : 0x1p14f;
  // An origin is rounded by 2^-24 of it: up to here that is no more than probabilities are. Rows
  // with a larger one take exact steps.
  static constexpr float kMostOrigin = 0x1p13f;

  // The number that is taken off exponents in row h.
  ATTNJIT_DEVICE float origin(int m, int h, float exponent_scale) const {
    return this->reference[m][h] * exponent_scale;
  }
  // Whether `origin` suited probabilities whose sum in a lane is `total`. False for NaN.
  ATTNJIT_DEVICE static bool suited(float origin, float total) {
    return total <= kLimit && fabsf(origin) <= kMostOrigin;
  }

  template <int kGroups, class Correct>
  ATTNJIT_DEVICE void step(const Fragments<kRowTiles, kGroups>& scores,
                           Probabilities<kRowTiles, kGroups>& probabilities, float exponent_scale,
                           Correct correct) {
    RowValues<kRowTiles> total;
    bool in_range = true;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float origin = this->origin(m, h, exponent_scale);
        total[m][h] = Exact::exponentiate(scores[m], probabilities[m], h, [&](float score) {
          return fmaf(score, exponent_scale, -origin);
        });
        in_range &= suited(origin, total[m][h]);
      }
    }
    if (!ptx::warp_all(in_range)) {
      Exact::step(scores, probabilities, exponent_scale, correct);
      return;
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) this->sum[m][h] += total[m][h];
    }
  }
};

// The same as MaxFreeSoftmax without a first tile that is exact: rows begin with a reference that
// suits most scores, and the first tile also has to show that it is not far too high for them.
template <DType kDType, int kRowTiles>
struct GivenStartSoftmax : MaxFreeSoftmax<kDType, kRowTiles> {
  using Exact = RunningMaxSoftmax<kDType, kRowTiles>;
  static constexpr bool kWide = kDType == DType::kBFloat16;
  // fp16 has nothing below 2^-24. A row whose first probabilities add up to 2^4 has one of 2^-4 at
  // least in a tile of 256 keys, so that what is 2^20 times smaller still counts. With a reference
  // of -6, in log2 units, rows of scores of unit variance begin between 2^4 and 2^14.
  static constexpr float kStart = kWide ? 0.0f : -6.0f;
  static constexpr float kLeast = kWide ? 0x1p-60f : 0x1p4f;  // of a row's first sum

  ATTNJIT_DEVICE void begin(float exponent_scale) {
    this->begin_at(kWide ? 0.0f : kStart * ptx::reciprocal_approx(exponent_scale));
  }

  // As RunningMaxSoftmax::step(); `begins`: nothing has been summed up before this tile. Returns
  // whether correct() was called. A function of the scores that are still there, so that `out` may
  // be in use.
  template <int kGroups, class Exponents, class Correct>
  ATTNJIT_DEVICE bool step(bool begins, Fragments<kRowTiles, kGroups>& scores,
                           Probabilities<kRowTiles, kGroups>& probabilities, Exponents exponents,
                           Correct correct) {
    RowValues<kRowTiles> total = {};
    bool in_range = true;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const float origin[2] = {this->origin(m, 0, exponents.exponent_scale),
                               this->origin(m, 1, exponents.exponent_scale)};
      // Rows side by side, and pairs of keys first: sums that wait for each other less.
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float low = ptx::exp2_approx(exponents.of(scores, m, n, 2 * h, origin[h]));
          const float high = ptx::exp2_approx(exponents.of(scores, m, n, 2 * h + 1, origin[h]));
          total[m][h] += low + high;
          probabilities[m][n][h] = ptx::pack<kDType>(low, high);
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        in_range &= this->suited(origin[h], total[m][h]);
        if (begins) in_range &= ptx::quad_sum(total[m][h]) >= kLeast;
      }
    }
    in_range &= exponents.fit();
    if (ptx::warp_all(in_range)) {
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) this->sum[m][h] += total[m][h];
      }
      return false;
    }
    if (begins) Exact::begin(exponents.exponent_scale);
    exponents.settle(scores);
    Exact::step(scores, probabilities, exponents.exponent_scale, correct);
    return true;
  }
};

template <SoftmaxPolicy kPolicy, DType kDType, int kRowTiles>
struct SoftmaxOf {
  using Type = RunningMaxSoftmax<kDType, kRowTiles>;
};
template <DType kDType, int kRowTiles>
struct SoftmaxOf<SoftmaxPolicy::kMaxFree, kDType, kRowTiles> {
  using Type = MaxFreeSoftmax<kDType, kRowTiles>;
};

}  // namespace attnjit::kernel
