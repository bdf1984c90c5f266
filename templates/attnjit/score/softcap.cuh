#pragma once
#include "attnjit/ptx/clamp.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/opaque.cuh"
#include "attnjit/score/feature.cuh"

namespace attnjit::kernel {

// Bounds scores by a cap: cap tanh(score / cap). kFresh: what follows from the cap is computed anew
// for each tile in differentiate(), where there is no register to keep it.
template <bool kFresh>
struct Softcap : Feature {
  static constexpr bool kTransforms = true;
  // tanh is 1 but for 2^-19 from here on.
  static constexpr float kFlat = 7.0f;
  static constexpr float kMostFloat = 3.4e38f;

  const float& cap;

  ATTNJIT_DEVICE explicit Softcap(const float& c) : cap(c) {}

  // The largest number instead of an infinity, which times 0 is NaN.
  ATTNJIT_DEVICE static float finite(float x) { return ptx::clamp(x, kMostFloat); }
  ATTNJIT_DEVICE static float inverse(float cap) { return finite(ptx::reciprocal_approx(cap)); }
  // cap tanh(x) in the units of `score`, of which x is `inverse` times as much, and `flat` where x
  // is kFlat: the quotient of polynomials of least relative error up to there, 2^-19.5. tanh of the
  // special function unit has 2^-11, which is more than lse may be off in a row of few keys.
  ATTNJIT_DEVICE static float capped(float score, float inverse, float flat) {
    score = ptx::clamp(score, flat);
    const float x = score * inverse, square = x * x;
    const float numerator =
        ((3.99592545e-06f * square + 0.00229310221f) * square + 0.123220712f) * square +
        0.999998987f;
    const float denominator =
        ((0.000143985817f * square + 0.0211516805f) * square + 0.456546307f) * square + 1.0f;
    return score * numerator * ptx::reciprocal_approx(denominator);
  }
  // 1 - tanh(x)^2 as 4 e / (1 + e)^2 with e = exp(-2 |x|): the difference has no digits where tanh
  // is near 1.
  ATTNJIT_DEVICE static float slope(float x) {
    const float e = ptx::exp2_approx(-2.0f * kLog2E * fabsf(x));
    const float inverse = ptx::reciprocal_approx(1.0f + e);
    return 4.0f * e * inverse * inverse;
  }

  template <class S>
  ATTNJIT_DEVICE void transform(S& scores, float scale) {
    const float inverse = finite(this->inverse(cap) * scale);
    const float flat = kFlat * ptx::reciprocal_approx(fabsf(inverse));
    scores.for_each([&](float& score, int, int, int) { score = capped(score, inverse, flat); });
  }
  template <class S>
  ATTNJIT_DEVICE void differentiate(S& scores, S& slopes) {
    const float cap = kFresh ? ptx::as_float(ptx::opaque(ptx::as_bits(this->cap))) : this->cap;
    const float inverse = this->inverse(cap);
    scores.for_each([&](float& score, int m, int n, int e) {
      slopes[m][n][e] *= slope(score * inverse);
      score = capped(score, inverse, kFlat * cap);
    });
  }
};

}  // namespace attnjit::kernel
