#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Functions of floats that expressions call. The device may be 2 ulp off.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE float exp(float x) { return __builtin_expf(x); }
ATTNJIT_DEVICE float floor(float x) { return __builtin_floorf(x); }
ATTNJIT_DEVICE float divide(float x, float y) { return x / y; }
ATTNJIT_DEVICE float sqrt(float x) { return __builtin_sqrtf(x); }
ATTNJIT_DEVICE float smaller(float x, float y) {
  if (x != x || y != y) return __builtin_nanf("");
  if (x == y) return __builtin_signbit(x) ? x : y;
  return x < y ? x : y;
}
ATTNJIT_DEVICE float larger(float x, float y) { return -smaller(-x, -y); }
ATTNJIT_DEVICE int to_int(float x) {
  if (x != x) return 0;
  if (x >= 0x1p31f) return 0x7fffffff;
  return x < -0x1p31f ? -0x7fffffff - 1 : static_cast<int>(x);
}

}  // namespace attnjit::kernel::ptx
