#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The arithmetic of adding up results of shares of the keys:
//
//   lse = log sum_s exp(lse_s)        out = sum_s exp(lse_s - lse) out_s
//
// Each weight() is relative to the highest lse_s; `total` is their sum.
struct LseWeights {
  bool dead;     // no result has a live key
  float origin;  // the highest lse_s, or 0 where that is -inf

  ATTNJIT_DEVICE explicit LseWeights(float highest)
      : dead(highest == -ptx::infinity()), origin(dead ? 0.0f : highest) {}

  ATTNJIT_DEVICE float weight(float lse) const { return ptx::exp2_approx((lse - origin) * kLog2E); }
  ATTNJIT_DEVICE float inverse(float total) const { return dead ? 0.0f : 1.0f / total; }
  ATTNJIT_DEVICE float lse(float total) const {
    return dead ? -ptx::infinity() : fmaf(ptx::log2_approx(total), kLn2, origin);
  }
};

}  // namespace attnjit::kernel
