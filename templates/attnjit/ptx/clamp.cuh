#pragma once
#include "attnjit/ptx/device.cuh"

namespace attnjit::kernel::ptx {

// `x`, or the end of [-limit, limit] that it lies beyond; NaN stays NaN.
ATTNJIT_DEVICE float clamp(float x, float limit) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(limit));
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(-limit));
  return x;
}

}  // namespace attnjit::kernel::ptx
