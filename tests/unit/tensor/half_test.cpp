#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tensor/half.hpp"

namespace attnjit::tensor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The value that the bits stand for, by the definition of the formats.
double decode(std::uint16_t bits, int mantissa_bits, int bias) {
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  }
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

struct Case {
  int mantissa_bits;
  int bias;
  double (*widen)(std::uint16_t) noexcept;
  float (*widen_float)(std::uint16_t) noexcept;
  std::uint16_t (*narrow)(double) noexcept;
};
constexpr Case kCases[] = {
    {10, 15, from_float16, widen_float16, to_float16},
    {7, 127, from_bfloat16, widen_bfloat16, to_bfloat16},
};

TEST_CASE("every bit pattern widens to its value and narrows back to itself") {
  for (const Case& format : kCases) {
    const int infinity = (0x7fff >> format.mantissa_bits) << format.mantissa_bits;
    int wrong = 0;
    for (int i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double value = format.widen(bits);
      wrong += format.narrow(value) != bits;
      const int magnitude = i & 0x7fff;
      if (magnitude > infinity) {
        wrong += !std::isnan(value) + !std::isnan(format.widen_float(bits));
      } else {
        const double want = magnitude == infinity ? ((i & 0x8000) != 0 ? -kInfinity : kInfinity)
                                                  : decode(bits, format.mantissa_bits, format.bias);
        wrong += value != want || std::signbit(value) != ((i & 0x8000) != 0);
        wrong += format.widen_float(bits) != want;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("values between two neighbours round to the nearest, ties to even") {
  for (const Case& format : kCases) {
    const int infinity = (0x7fff >> format.mantissa_bits) << format.mantissa_bits;
    int wrong = 0;
    for (int i = 0; i + 1 < infinity; ++i) {
      const double low = format.widen(static_cast<std::uint16_t>(i));
      const double high = format.widen(static_cast<std::uint16_t>(i + 1));
      const double middle = low / 2 + high / 2;
      const int even = i % 2 == 0 ? i : i + 1;
      wrong += format.narrow(middle) != even;
      wrong += format.narrow(-middle) != (even | 0x8000);
      wrong += format.narrow(std::nextafter(middle, low)) != i;
      wrong += format.narrow(std::nextafter(middle, high)) != i + 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("overflow, underflow and NaN") {
  CHECK(to_float16(65504.0) == 0x7bff);
  CHECK(to_float16(65519.99) == 0x7bff);
  CHECK(to_float16(65520.0) == 0x7c00);
  CHECK(to_float16(-1e300) == 0xfc00);
  CHECK(to_float16(0x1p-25) == 0);  // half of the smallest subnormal, to even
  CHECK(to_float16(0x1.8p-25) == 1);
  CHECK(to_float16(-0x1p-26) == 0x8000);
  CHECK(to_float16(-1e-320) == 0x8000);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(to_bfloat16(0x1.fep127) == 0x7f7f);
  CHECK(to_bfloat16(kInfinity) == 0x7f80);
  CHECK(std::isnan(from_bfloat16(to_bfloat16(std::nan("")))));
  // A payload that lives in bits which the narrow format lacks must not turn into infinity.
  const double low_payload = std::bit_cast<double>(0x7ff0000000000001u);
  CHECK(std::isnan(from_float16(to_float16(low_payload))));
  CHECK(std::isnan(from_bfloat16(to_bfloat16(low_payload))));
  // One rounding, not two: through fp32 this tie would go to the even neighbour below.
  CHECK(to_bfloat16(1.00390625 + 1e-12) == 0x3f81);
}

TEST_CASE("load and store address elements of each dtype") {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    std::uint32_t memory[4] = {};
    store(memory, dtype, 1, 1.5);
    store(memory, dtype, 3, -0.25);
    CHECK(load(memory, dtype, 0) == 0);
    CHECK(load(memory, dtype, 1) == 1.5);
    CHECK(load(memory, dtype, 3) == -0.25);
    CHECK(round_to(dtype, 1 + unit_roundoff(dtype)) == 1);  // a tie
    CHECK(round_to(dtype, 1 + 1.01 * unit_roundoff(dtype)) > 1);
    CHECK(std::isfinite(round_to(dtype, lowest_finite(dtype))));
  }
  std::uint8_t flags[2] = {0, 7};
  CHECK(load(flags, DType::kBool, 1) == 1);
  store(flags, DType::kBool, 0, -3.0);
  CHECK(flags[0] == 1);
}

}  // namespace
}  // namespace attnjit::tensor
