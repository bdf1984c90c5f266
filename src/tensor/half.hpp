#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "attnjit/tensor.hpp"

namespace attnjit::tensor {

/// Bits of the nearest fp16 / bf16 value, ties to even, in one rounding from fp64. Overflow gives
/// infinity, underflow gives subnormals or a signed zero, NaN stays NaN. Floats widen exactly, so
/// these serve both widths.
std::uint16_t to_float16(double value) noexcept;
std::uint16_t to_bfloat16(double value) noexcept;

/// The exact value of fp16 / bf16 bits. NaN payloads survive a round trip.
double from_float16(std::uint16_t bits) noexcept;
double from_bfloat16(std::uint16_t bits) noexcept;

/// The same values as fp32, without branches, for loops over whole rows.
inline float widen_bfloat16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
inline float widen_float16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
  // The exponent biases differ by 112; the product normalises fp16's subnormals as well.
  const float finite = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t special = magnitude | 0x7f800000u;
  const bool is_finite = magnitude < 0x0f800000u;
  return std::bit_cast<float>(sign | (is_finite ? std::bit_cast<std::uint32_t>(finite) : special));
}

/// Element `index` of an array of `dtype` as fp64 (kBool gives 0 or 1).
double load(const void* base, DType dtype, std::int64_t index) noexcept;

/// Rounds `value` to `dtype` and stores it as element `index` (kBool stores value != 0).
void store(void* base, DType dtype, std::int64_t index, double value) noexcept;

/// `value` rounded to `dtype`, back as fp64.
double round_to(DType dtype, double value) noexcept;

/// The u of the accuracy rule: 2^-8 for bf16, 2^-11 for fp16, 2^-24 for fp32.
double unit_roundoff(DType dtype) noexcept;

/// The lowest finite value: -65504 for fp16, about -3.39e38 for bf16, -FLT_MAX for fp32.
double lowest_finite(DType dtype) noexcept;

/// "fp16", "bf16", "fp32" or "bool".
std::string_view dtype_name(DType dtype) noexcept;

}  // namespace attnjit::tensor
