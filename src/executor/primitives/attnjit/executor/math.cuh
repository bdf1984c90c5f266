#pragma once
#include <cstring>

#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// An fp32 element and its bits.
ATTNJIT_DEVICE float as_float(uint32 bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
ATTNJIT_DEVICE uint32 as_bits(float value) {
  uint32 bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

ATTNJIT_DEVICE int lowest_bit(uint32 bits) { return __builtin_ctz(bits); }
ATTNJIT_DEVICE int count_bits(uint32 bits) { return __builtin_popcount(bits); }
ATTNJIT_DEVICE uint32 low_bits(int count) { return count >= 32 ? 0xffffffffu : (1u << count) - 1; }

ATTNJIT_DEVICE float infinity() { return as_float(0x7f800000); }
ATTNJIT_DEVICE float largest() { return as_float(0x7f7fffff); }

// ex2.approx.ftz: subnormal arguments and results are zero. The device may be 2 ulp off.
ATTNJIT_DEVICE float exp2_approx(float x) {
  const float y = __builtin_exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
}
// rcp.approx.ftz in the same way.
ATTNJIT_DEVICE float reciprocal_approx(float x) {
  const float y = 1.0f / (fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x);
  return fabsf(y) < 0x1p-126f ? __builtin_copysignf(0.0f, y) : y;
}
ATTNJIT_DEVICE float log2_approx(float x) { return __builtin_log2f(x); }

// The bits of `value` rounded to nearest even; NaN becomes the one that the device gives.
template <DType kDType>
ATTNJIT_DEVICE uint16 round_bits(float value) {
  if (value != value) return 0x7fff;
  if constexpr (kDType == DType::kBFloat16) {
    const uint32 bits = as_bits(value);
    return static_cast<uint16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  } else {
    return services->round_to_float16(value);
  }
}

// Two floats rounded and packed, `low` in the low half.
template <DType kDType>
ATTNJIT_DEVICE uint32 pack(float low, float high) {
  return round_bits<kDType>(low) | static_cast<uint32>(round_bits<kDType>(high)) << 16;
}

// The exact value of a 16-bit element.
template <DType kDType>
ATTNJIT_DEVICE float widen(uint16 bits) {
  if constexpr (kDType == DType::kBFloat16) {
    return as_float(static_cast<uint32>(bits) << 16);
  } else {
    return services->widen_float16(bits);
  }
}

}  // namespace attnjit::kernel::ptx
