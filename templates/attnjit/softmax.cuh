#pragma once
#include "attnjit/forward_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/kept_keys.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/tile/fragments.cuh"

namespace attnjit::kernel {

// The probabilities of one thread, rounded and packed as the operand of P V: [row tile][column
// group][row h], the two neighbouring columns of a group in one word.
template <int kRowTiles, int kGroups>
using Probabilities = uint32[kRowTiles][kGroups][2];

// Softmax over a row that arrives tile by tile: a running maximum, and a correction of what was
// summed under an older one (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; FlashAttention). kScaled: scores arrive with their scale and all that is added to them, so
// that they may be too large to have digits after the point; others are products of queries and
// keys.
template <DType kDType, int kRowTiles, bool kScaled>
struct RunningMaxSoftmax {
  // The reference that exponents are taken against, the same in all lanes of the quad: the running
  // maximum, -inf before the first kept key. Of scaled scores it is one of them, so that
  // differences are exact. Of products it is in log2 units, the rounded product of its time: a
  // correction from anything else would weigh tiles differently where scores are large.
  RowValues<kRowTiles> reference;
  RowValues<kRowTiles> sum;  // of this lane's keys only, until finish()

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

  // Turns the scores of a tile into probabilities, 2^(exponent_scale score - reference in log2
  // units). Where a row's reference may have changed, correct(m, h, factor) tells what its output
  // so far, which was summed under the one before, is to be multiplied by.
  template <int kGroups, class Correct>
  ATTNJIT_DEVICE void step(const Fragments<kRowTiles, kGroups>& scores,
                           Probabilities<kRowTiles, kGroups>& probabilities, float exponent_scale,
                           Correct correct) {
    constexpr float kDifference = kScaled ? kLog2E : 1.0f;  // of references, to log2 units
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float highest = ptx::quad_max(scores.row_max(m, h));
        const float before = reference[m][h];
        if (highest > kDeadScore) {
          reference[m][h] = fmaxf(before, kScaled ? highest : highest * exponent_scale);
        }
        // A row without a kept key so far has no reference: -inf - -inf would be NaN.
        const float origin = reference[m][h] == -ptx::infinity() ? 0.0f : reference[m][h];
        const float correction = ptx::exp2_approx((before - origin) * kDifference);
        sum[m][h] =
            sum[m][h] * correction + exponentiate(scores[m], probabilities[m], h, [&](float score) {
              return kScaled ? (score - origin) * kLog2E : score * exponent_scale - origin;
            });
        correct(m, h, correction);
      }
    }
  }

  // The state of a row after the last tile.
  ATTNJIT_DEVICE RowState finish(int m, int h) const {
    return {kScaled ? reference[m][h] : reference[m][h] * kLn2, ptx::quad_sum(sum[m][h])};
  }

 protected:
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
// exponentiated against the reference at hand, and its row sums tell whether that went well: a
// sum beyond the limit (an infinity or NaN where a row has no reference yet included) makes the
// warp take the exact step above, from the scores, which are still there. No maximum, no shuffle
// and no rescaling of `out` otherwise.
template <DType kDType, int kRowTiles, bool kScaled>
struct MaxFreeSoftmax : RunningMaxSoftmax<kDType, kRowTiles, kScaled> {
  using Exact = RunningMaxSoftmax<kDType, kRowTiles, kScaled>;
  // Every probability is at most its lane's sum. bf16 has the exponents of fp32, and 2^60 leaves
  // room for the products and sums; fp16 ends at 65504.
  static constexpr float kLimit = kDType == DType::kBFloat16 ? 0x1p60f : 0x1p14f;
  // A scaled reference in log2 units is rounded by 2^-24 of it: up to here that is no more than
  // probabilities are. Rows with a larger one take exact steps.
  static constexpr float kMostReference = 0x1p13f;

  // The number that is taken off exponents in row h.
  ATTNJIT_DEVICE float origin(int m, int h) const {
    return kScaled ? this->reference[m][h] * kLog2E : this->reference[m][h];
  }
  // Whether the reference of row h suited probabilities whose sum in a lane is `total`.
  ATTNJIT_DEVICE bool suited(int m, int h, float total) const {
    const bool in_range = total <= kLimit;  // false for NaN
    return kScaled ? in_range && fabsf(this->reference[m][h]) <= kMostReference : in_range;
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
        const float origin = this->origin(m, h);
        total[m][h] = Exact::exponentiate(scores[m], probabilities[m], h, [&](float score) {
          return score * exponent_scale - origin;
        });
        in_range &= suited(m, h, total[m][h]);
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

// What 2 is raised to. Scores are scaled (kScaled), added to and dropped (kDrops) in place, each on
// the way to its exponent: a pass of its own over all of them would keep the unit that
// exponentiates waiting.
template <class Features, ScoreShape kShape, bool kScaled, bool kDrops>
struct SettledExponents {
  const Features& features;
  const KeptKeys<kShape>& kept;
  float score_scale, exponent_scale;

  template <class S>
  ATTNJIT_DEVICE float of(S& scores, int m, int n, int e, float origin) const {
    const int line = kShape.line(m, n, e), key = kShape.key(m, n, e);
    float& score = scores[m][n][e];
    if constexpr (kScaled) score *= score_scale;
    score = features.added(score, line, key);
    if constexpr (kDrops) score = kept.of(score, line, key);
    return score * exponent_scale - origin;
  }
  // Whether all of them were exact.
  ATTNJIT_DEVICE bool fit() const { return true; }
  // Makes `scores` those that the exact step takes.
  template <class S>
  ATTNJIT_DEVICE void settle(S&) const {}
};

// The same for scores of a plain tile that features have yet to change, which takes fewer
// instructions in the exponent (Feature::begin_exponents()). The scores stay as they are, for the
// exact step to change them.
template <class Features, ScoreShape kShape, bool kScaled>
struct ChangedExponents {
  Features& features;
  const Block& block;
  int first_key;
  float score_scale, exponent_scale;

  template <class S>
  ATTNJIT_DEVICE float of(const S& scores, int m, int n, int e, float origin) {
    const int line = kShape.line(m, n, e), key = kShape.key(m, n, e);
    const float factor = features.exponent_factor(kScaled ? score_scale * kLog2E : exponent_scale);
    const float score = features.transformed(scores[m][n][e]);
    return fmaf(score, factor, features.addend(features.line_addend(-origin, line), line, key));
  }
  ATTNJIT_DEVICE bool fit() const { return features.in_exponents_fit(); }
  template <class S>
  ATTNJIT_DEVICE void settle(S& scores) const {
    if constexpr (Features::kTransforms) features.transform(scores);
    if constexpr (kScaled) scores *= score_scale;
    features.add(block, scores, first_key);
  }
};

// The same as MaxFreeSoftmax without a first tile that is exact: rows begin with a reference that
// suits most scores, and the first tile also has to show that it is not far too high for them.
template <DType kDType, int kRowTiles, bool kScaled>
struct GivenStartSoftmax : MaxFreeSoftmax<kDType, kRowTiles, kScaled> {
  using Exact = RunningMaxSoftmax<kDType, kRowTiles, kScaled>;
  static constexpr bool kWide = kDType == DType::kBFloat16;
  // fp16 has nothing below 2^-24. A row whose first probabilities add up to 2^4 has one of 2^-4 at
  // least in a tile of 256 keys, so that what is 2^20 times smaller still counts. With a reference
  // of -6, in log2 units, rows of scores of unit variance begin between 2^4 and 2^14.
  static constexpr float kStart = kWide ? 0.0f : kScaled ? -6.0f * kLn2 : -6.0f;
  static constexpr float kLeast = kWide ? 0x1p-60f : 0x1p4f;  // of a row's first sum

  ATTNJIT_DEVICE void begin() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        this->reference[m][h] = kStart;
        this->sum[m][h] = 0.0f;
      }
    }
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
      // Rows side by side, and pairs of keys first: sums that wait for each other less.
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float origin = this->origin(m, h);
          const float low = ptx::exp2_approx(exponents.of(scores, m, n, 2 * h, origin));
          const float high = ptx::exp2_approx(exponents.of(scores, m, n, 2 * h + 1, origin));
          total[m][h] += low + high;
          probabilities[m][n][h] = ptx::pack<kDType>(low, high);
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        in_range &= this->suited(m, h, total[m][h]);
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
    if (begins) Exact::begin();
    exponents.settle(scores);
    Exact::step(scores, probabilities, exponents.exponent_scale, correct);
    return true;
  }
};

template <SoftmaxPolicy kPolicy, DType kDType, int kRowTiles, bool kScaled>
struct SoftmaxOf {
  using Type = RunningMaxSoftmax<kDType, kRowTiles, kScaled>;
};
template <DType kDType, int kRowTiles, bool kScaled>
struct SoftmaxOf<SoftmaxPolicy::kMaxFree, kDType, kRowTiles, kScaled> {
  using Type = MaxFreeSoftmax<kDType, kRowTiles, kScaled>;
};

}  // namespace attnjit::kernel
