#pragma once
#include "attnjit/ptx/clamp.cuh"
#include "attnjit/ptx/math.cuh"

namespace attnjit::kernel {

inline constexpr float kTanhFlat = 7.0f;  // tanh is 1 but for 2^-19 from here on

// cap tanh(x) in the units of `score`, of which x is `ratio` times as much, and `flat` where x is
// kTanhFlat: the quotient of polynomials of least relative error up to there, 2^-19.5.
ATTNJIT_DEVICE float tanh_quotient(float score, float ratio, float flat) {
  score = ptx::clamp(score, flat);
  const float x = score * ratio, square = x * x;
  const auto horner = [&](float a, float b, float c, float d) {
    return fmaf(fmaf(fmaf(a, square, b), square, c), square, d);
  };
  const float numerator = horner(3.99592545e-06f, 0.00229310221f, 0.123220712f, 0.999998987f);
  const float denominator = horner(0.000143985817f, 0.0211516805f, 0.456546307f, 1.0f);
  return score * numerator * ptx::reciprocal_approx(denominator);
}

}  // namespace attnjit::kernel
