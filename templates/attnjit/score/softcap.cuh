#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/softcap_params.h"
#include "attnjit/score/tanh.cuh"

namespace attnjit::kernel {

// Bounds scores by a cap: cap tanh(score / cap). Two formulas, for tanh of the special function
// unit has an error of 2^-11, which is more than lse may be off in a row of few keys: a polynomial
// for scores up to the cap, nearly all that models have, and a quotient, which asks that unit once
// more than the softmax does and then waits for it.
struct Softcap : Feature {
  static constexpr bool kTransforms = true, kInExponents = true;

  const SoftcapParams& params;
  float highest;  // |score| of the tile at hand

  ATTNJIT_DEVICE explicit Softcap(const SoftcapParams& p) : params(p), highest(0.0f) {}

  // The factor of a near score, but for params.lead.
  ATTNJIT_DEVICE float near_ratio(float score) const {
    const float square = score * score;
    float ratio = square + params.near[4];
#pragma unroll
    for (int i = 3; i >= 0; --i) ratio = fmaf(ratio, square, params.near[i]);
    return ratio;
  }
  // 1 - tanh(x)^2 as the square of 1 / cosh(x) = 2 e / (1 + e^2) with e = exp(-|x|): the difference
  // has no digits where tanh is near 1, and exp(-2 |x|) would be flushed to 0 before its quadruple.
  ATTNJIT_DEVICE static float slope(float x) {
    const float e = ptx::exp2_approx(-kLog2E * fabsf(x));
    const float half = e * ptx::reciprocal_approx(fmaf(e, e, 1.0f));
    return 4.0f * half * half;
  }

  template <class S>
  ATTNJIT_DEVICE void transform(const Block&, S& scores, int) {
    const float flat = kTanhFlat * params.cap;
    scores.for_each(
        [&](float& score, int, int, int) { score = tanh_quotient(score, params.ratio, flat); });
  }
  ATTNJIT_DEVICE void begin_exponents(const Block&, int) { highest = 0.0f; }
  ATTNJIT_DEVICE float transformed(float score) {
    highest = fmaxf(highest, fabsf(score));
    return score * near_ratio(score);
  }
  ATTNJIT_DEVICE float exponent_factor(float factor) const { return factor * params.lead; }
  ATTNJIT_DEVICE bool in_exponents_fit() const { return highest <= params.most; }
  template <class S>
  ATTNJIT_DEVICE void differentiate(const Block&, S& scores, S& slopes, int) {
    float highest = 0.0f;
    scores.for_each([&](float& score, int, int, int) { highest = fmaxf(highest, fabsf(score)); });
    if (ptx::warp_all(highest <= params.most)) {
      scores.for_each([&](float& score, int m, int n, int e) {
        score *= near_ratio(score) * params.lead;
        const float tanh = score * params.ratio;
        slopes[m][n][e] *= fmaf(-tanh, tanh, 1.0f);
      });
      return;
    }
    const float flat = kTanhFlat * params.cap;
    scores.for_each([&](float& score, int m, int n, int e) {
      slopes[m][n][e] *= slope(score * params.ratio);
      score = tanh_quotient(score, params.ratio, flat);
    });
  }
};

}  // namespace attnjit::kernel
