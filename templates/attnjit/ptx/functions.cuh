#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Functions of floats that expressions call; none of them branches.
namespace attnjit::kernel::ptx {

// e^x, at most 2 ulp off (CUDA C++ Programming Guide, expf).
ATTNJIT_DEVICE float exp(float x) { return expf(x); }
// The largest whole number that is at most `x`.
ATTNJIT_DEVICE float floor(float x) { return floorf(x); }
// x / y, at most 2 ulp off for any y (PTX ISA, div.full).
ATTNJIT_DEVICE float divide(float x, float y) {
  float quotient;
  asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(y));
  return quotient;
}
// At most an ulp off; NaN of less than 0.
ATTNJIT_DEVICE float sqrt(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
// NaN where either is; -0 is less than 0.
ATTNJIT_DEVICE float smaller(float x, float y) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  return x;
}
ATTNJIT_DEVICE float larger(float x, float y) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  return x;
}
// The whole part of `x`, or the end of the ints of 32 bits that it lies beyond; 0 of NaN.
ATTNJIT_DEVICE int to_int(float x) { return __float2int_rz(x); }

}  // namespace attnjit::kernel::ptx
