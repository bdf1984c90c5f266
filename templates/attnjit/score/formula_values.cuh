#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/functions.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/tanh.cuh"
#include "attnjit/types.h"

// Operations of expressions that C++ has no operator for (docs/reference/
// expressions.md), without branches: a divergent one makes ptxas serialise the wgmma in flight.
// Ints are `int` where 32 bits are known to hold them, else int64.
namespace attnjit::kernel::formula {

ATTNJIT_DEVICE int64 wide(int64 x) { return x; }
ATTNJIT_DEVICE int narrowed(int64 x) { return static_cast<int>(x); }

// Of 64 bits that may not hold the result.
ATTNJIT_DEVICE int64 wrapped_sum(int64 x, int64 y) {
  return static_cast<int64>(static_cast<uint64>(x) + static_cast<uint64>(y));
}
ATTNJIT_DEVICE int64 wrapped_difference(int64 x, int64 y) {
  return static_cast<int64>(static_cast<uint64>(x) - static_cast<uint64>(y));
}
ATTNJIT_DEVICE int64 wrapped_product(int64 x, int64 y) {
  const auto a = static_cast<uint64>(x), b = static_cast<uint64>(y);
  return static_cast<int64>(a * b);
}
ATTNJIT_DEVICE int64 wrapped_negative(int64 x) { return wrapped_difference(0, x); }

// The side of `? :` that counts; the other one may be computed as well.
template <class T>
ATTNJIT_DEVICE T select(bool condition, T then, T otherwise) {
  return condition ? then : otherwise;
}

template <class Int>
ATTNJIT_DEVICE Int smaller(Int x, Int y) {
  return x < y ? x : y;
}
template <class Int>
ATTNJIT_DEVICE Int larger(Int x, Int y) {
  return x < y ? y : x;
}
ATTNJIT_DEVICE float smaller(float x, float y) { return ptx::smaller(x, y); }
ATTNJIT_DEVICE float larger(float x, float y) { return ptx::larger(x, y); }
template <class T>
ATTNJIT_DEVICE T clamped(T x, T low, T high) {
  return smaller(larger(x, low), high);
}

ATTNJIT_DEVICE int magnitude(int x) { return x < 0 ? -x : x; }
ATTNJIT_DEVICE int64 magnitude(int64 x) { return x < 0 ? wrapped_negative(x) : x; }
ATTNJIT_DEVICE float magnitude(float x) { return fabsf(x); }

// Rounded down; 0 where y is 0.
template <class Int>
ATTNJIT_DEVICE Int floor_quotient(Int x, Int y) {
  const bool mirrors = y == -1;  // the lowest int has no quotient by -1
  const Int divisor = y == 0 || mirrors ? Int{1} : y;
  const Int quotient = x / divisor;
  const bool above = quotient * divisor != x && (x < 0) != (divisor < 0);
  const Int floor = above ? quotient - 1 : quotient;
  return y == 0 ? 0 : mirrors ? static_cast<Int>(wrapped_negative(x)) : floor;
}
// Of the sign of y; x where y is 0.
template <class Int>
ATTNJIT_DEVICE Int floor_remainder(Int x, Int y) {
  const Int divisor = y == 0 || y == -1 ? Int{1} : y;
  const Int rest = x % divisor;
  const Int floor = rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
  return y == 0 ? x : floor;
}
// The count is clamped to 0 ... 63.
template <class Int>
ATTNJIT_DEVICE int shift_count(Int count) {
  return static_cast<int>(clamped<Int>(count, 0, 63));
}
ATTNJIT_DEVICE int64 shifted_left(int64 x, int64 count) {
  return static_cast<int64>(static_cast<uint64>(x) << shift_count(count));
}
template <class Int>
ATTNJIT_DEVICE Int shifted_right(Int x, Int count) {
  return static_cast<Int>(wide(x) >> shift_count(count));
}

ATTNJIT_DEVICE float to_float(bool x) { return x ? 1.0f : 0.0f; }
ATTNJIT_DEVICE float to_float(int x) { return static_cast<float>(x); }
ATTNJIT_DEVICE float to_float(int64 x) { return static_cast<float>(x); }
ATTNJIT_DEVICE int to_int(bool x) { return x ? 1 : 0; }
ATTNJIT_DEVICE int to_int(float x) { return ptx::to_int(x); }

// The logarithm of the special function unit is off by 2^-22, of itself or in all.
ATTNJIT_DEVICE float log(float x) { return kLn2 * ptx::log2_approx(x); }
ATTNJIT_DEVICE float sigmoid(float x) { return ptx::reciprocal_approx(1.0f + ptx::exp(-x)); }
ATTNJIT_DEVICE float tanh(float x) { return tanh_quotient(x, 1.0f, kTanhFlat); }
// A derivative as gradients take it: 0 where it is infinite or NaN. Scores of -inf, whose
// probability is 0, have such derivatives, and 0 times these would be NaN.
ATTNJIT_DEVICE float finite(float slope) { return fabsf(slope) < ptx::infinity() ? slope : 0.0f; }

}  // namespace attnjit::kernel::formula
