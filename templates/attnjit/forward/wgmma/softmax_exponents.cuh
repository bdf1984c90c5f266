#pragma once
#include "attnjit/score/block.cuh"
#include "attnjit/score/kept_keys.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Exponents of 2. Scores are scaled (kScaled), added to and dropped (kDrops) in place, each on the
// way to its exponent: a separate pass over all scores would stall the special function unit.
template <class Features, ScoreShape kShape, bool kScaled, bool kDrops>
struct SettledExponents {
  const Features& features;
  const KeptKeys<kShape>& kept;
  float score_scale, exponent_scale;
  static_assert(kScaled || !Features::kAdds);

  template <class S>
  ATTNJIT_DEVICE float of(S& scores, int m, int n, int e, float origin) const {
    const int line = ScoreShape(kShape).line(m, n, e), key = ScoreShape(kShape).key(m, n, e);
    float& score = scores[m][n][e];
    if constexpr (kScaled) score = features.added(score, score_scale, line, key);
    if constexpr (kDrops) score = kept.of(score, line, key);
    return fmaf(score, exponent_scale, -origin);
  }
  // Whether all exponents were exact.
  ATTNJIT_DEVICE bool fit() const { return true; }
  // Changes `scores` to those that the exact step needs.
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
    const int line = ScoreShape(kShape).line(m, n, e), key = ScoreShape(kShape).key(m, n, e);
    const float factor = features.exponent_factor(kScaled ? score_scale * kLog2E : exponent_scale);
    const float score = features.transformed(scores[m][n][e]);
    return fmaf(score, factor, features.addend(features.line_addend(-origin, line), line, key));
  }
  ATTNJIT_DEVICE bool fit() const { return features.in_exponents_fit(); }
  template <class S>
  ATTNJIT_DEVICE void settle(S& scores) const {
    const float scale = kScaled ? score_scale : 1.0f;
    const float left = features.transform(block, scores, scale, first_key);
    features.add(block, scores, left, first_key);
  }
};

}  // namespace attnjit::kernel
