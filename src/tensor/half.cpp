#include "tensor/half.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace attnjit::tensor {
namespace {

// A binary format of 16 bits: sign, exponent, mantissa.
struct Format {
  int mantissa_bits;
  int bias;
};
constexpr Format kFloat16Format{10, 15};
constexpr Format kBFloat16Format{7, 127};

constexpr int kDoubleMantissaBits = 52;
constexpr int kDoubleBias = 1023;
constexpr std::uint64_t kDoubleSign = std::uint64_t{1} << 63;
constexpr std::uint64_t kDoubleInfinity = std::uint64_t{0x7ff} << kDoubleMantissaBits;
constexpr std::uint64_t kDoubleMantissa = (std::uint64_t{1} << kDoubleMantissaBits) - 1;

constexpr std::uint64_t infinity_bits(Format format) {
  return std::uint64_t{0x7fff} >> format.mantissa_bits << format.mantissa_bits;
}

std::uint64_t narrow_nan(std::uint64_t magnitude, Format format) {
  const int shift = kDoubleMantissaBits - format.mantissa_bits;
  const std::uint64_t payload = (magnitude & kDoubleMantissa) >> shift;
  const std::uint64_t quiet = std::uint64_t{1} << (format.mantissa_bits - 1);
  return infinity_bits(format) | (payload != 0 ? payload : quiet);
}

std::uint64_t narrow_finite(std::uint64_t magnitude, Format format) {
  const int exponent = static_cast<int>(magnitude >> kDoubleMantissaBits) - kDoubleBias;
  const int lowest = 1 - format.bias;  // exponent of the smallest normal number
  const int shift = kDoubleMantissaBits - format.mantissa_bits + std::max(0, lowest - exponent);
  if (shift > kDoubleMantissaBits + 1) {
    return 0;  // below half of the smallest subnormal
  }
  const std::uint64_t mantissa =
      (magnitude & kDoubleMantissa) | (std::uint64_t{1} << kDoubleMantissaBits);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t rest = mantissa & (2 * half - 1);
  std::uint64_t kept = mantissa >> shift;
  kept += rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
  // `kept` holds the implicit bit of a normal number, so the exponent field starts one lower. A
  // carry out of the mantissa moves into the exponent by itself, up to infinity.
  const std::uint64_t field = static_cast<std::uint64_t>(std::max(exponent, lowest) - lowest);
  return std::min((field << format.mantissa_bits) + kept, infinity_bits(format));
}

std::uint16_t narrow(double value, Format format) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & ~kDoubleSign;
  const std::uint64_t sign = (bits & kDoubleSign) >> 48;
  if (magnitude > kDoubleInfinity) {
    return static_cast<std::uint16_t>(sign | narrow_nan(magnitude, format));
  }
  if (magnitude == kDoubleInfinity) {
    return static_cast<std::uint16_t>(sign | infinity_bits(format));
  }
  return static_cast<std::uint16_t>(sign | narrow_finite(magnitude, format));
}

// NaN is assembled by hand: the hardware conversion from fp32 would quiet it.
double widen_nan(std::uint16_t bits, Format format) {
  const std::uint64_t sign = static_cast<std::uint64_t>(bits & 0x8000u) << 48;
  const std::uint64_t payload = bits & ((1u << format.mantissa_bits) - 1);
  return std::bit_cast<double>(sign | kDoubleInfinity |
                               payload << (kDoubleMantissaBits - format.mantissa_bits));
}

}  // namespace

std::uint16_t to_float16(double value) noexcept { return narrow(value, kFloat16Format); }
std::uint16_t to_bfloat16(double value) noexcept { return narrow(value, kBFloat16Format); }

double from_float16(std::uint16_t bits) noexcept {
  return (bits & 0x7fffu) > 0x7c00u ? widen_nan(bits, kFloat16Format) : widen_float16(bits);
}

double from_bfloat16(std::uint16_t bits) noexcept {
  return (bits & 0x7fffu) > 0x7f80u ? widen_nan(bits, kBFloat16Format) : widen_bfloat16(bits);
}

double load(const void* base, DType dtype, std::int64_t index) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return from_float16(static_cast<const std::uint16_t*>(base)[index]);
    case DType::kBFloat16:
      return from_bfloat16(static_cast<const std::uint16_t*>(base)[index]);
    case DType::kFloat32:
      return static_cast<const float*>(base)[index];
    case DType::kInt32:
      return static_cast<const std::int32_t*>(base)[index];
    case DType::kInt64:
      return static_cast<double>(static_cast<const std::int64_t*>(base)[index]);
    case DType::kBool:
      return static_cast<const std::uint8_t*>(base)[index] != 0 ? 1.0 : 0.0;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void store(void* base, DType dtype, std::int64_t index, double value) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      static_cast<std::uint16_t*>(base)[index] = to_float16(value);
      break;
    case DType::kBFloat16:
      static_cast<std::uint16_t*>(base)[index] = to_bfloat16(value);
      break;
    case DType::kFloat32:
      static_cast<float*>(base)[index] = static_cast<float>(value);
      break;
    case DType::kInt32:
      static_cast<std::int32_t*>(base)[index] = static_cast<std::int32_t>(value);
      break;
    case DType::kInt64:
      static_cast<std::int64_t*>(base)[index] = static_cast<std::int64_t>(value);
      break;
    case DType::kBool:
      static_cast<std::uint8_t*>(base)[index] = value != 0 ? 1 : 0;
      break;
  }
}

double round_to(DType dtype, double value) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return from_float16(to_float16(value));
    case DType::kBFloat16:
      return from_bfloat16(to_bfloat16(value));
    case DType::kFloat32:
      return static_cast<float>(value);
    case DType::kInt32:
    case DType::kInt64:
      return std::trunc(value);
    case DType::kBool:
      return value != 0 ? 1.0 : 0.0;
  }
  return value;
}

double unit_roundoff(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat32:
      return 0x1p-24;
    case DType::kBool:
    case DType::kInt32:
    case DType::kInt64:
      break;
  }
  return 0;
}

double lowest_finite(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return -65504.0;
    case DType::kBFloat16:
      return from_bfloat16(0xff7f);
    case DType::kFloat32:
      return std::numeric_limits<float>::lowest();
    case DType::kBool:
    case DType::kInt32:
    case DType::kInt64:
      break;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return "fp16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat32:
      return "fp32";
    case DType::kBool:
      return "bool";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
  }
  return "unknown";
}

}  // namespace attnjit::tensor
