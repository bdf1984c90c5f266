#include "expr/float_range.hpp"

#include <algorithm>
#include <cmath>

#include "attnjit/error.hpp"

namespace attnjit::expr {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 0x1p-126;             // fp32 results below it may be 0
constexpr double kLargest = 0x1.fffffep127;    // those above it are infinite
constexpr double kRelative = 0x1p-20;          // others are off by no more of themselves
constexpr double kFunction = 0x1p-10;          // and those of exp, log, tanh and sigmoid by this,
constexpr double kFunctionAbsolute = 0x1p-18;  // or by this

double below(double x, double relative, double absolute) {
  if (std::isinf(x)) return x < 0 ? x : kLargest;
  const double moved = x - std::fabs(x) * relative - absolute;
  return moved < -kLargest ? -kInfinity : std::min(moved, kLargest);
}

FloatRange outward(const FloatRange& range, double relative = kRelative, double absolute = kTiny) {
  return {below(range.low, relative, absolute), -below(-range.high, relative, absolute),
          range.may_be_nan};
}

bool has_zero(const FloatRange& x) { return x.low <= kTiny && x.high >= -kTiny; }
bool has_infinity(const FloatRange& x) { return std::isinf(x.low) || std::isinf(x.high); }
bool either_nan(const FloatRange& x, const FloatRange& y) { return x.may_be_nan || y.may_be_nan; }

// Of a function that is monotonic in each argument; a corner without a value, as 0 * inf, is 0
// between its neighbours.
template <class F>
FloatRange of_corners(const FloatRange& x, const FloatRange& y, bool may_be_nan, F f) {
  FloatRange all{kInfinity, -kInfinity, may_be_nan};
  for (const double a : {x.low, x.high}) {
    for (const double b : {y.low, y.high}) {
      const double value = f(a, b);
      const double corner = std::isnan(value) ? 0 : value;
      all = hull(all, {corner, corner, false});
    }
  }
  return outward(all);
}

FloatRange sums(const FloatRange& x, const FloatRange& y) {
  const bool may_be_nan = either_nan(x, y) || (x.low == -kInfinity && y.high == kInfinity) ||
                          (x.high == kInfinity && y.low == -kInfinity);
  // A bound that is inf - inf is any number.
  const double low = x.low + y.low, high = x.high + y.high;
  return outward(
      {std::isnan(low) ? -kInfinity : low, std::isnan(high) ? kInfinity : high, may_be_nan});
}

FloatRange products(const FloatRange& x, const FloatRange& y) {
  const bool may_be_nan =
      either_nan(x, y) || (has_zero(x) && has_infinity(y)) || (has_zero(y) && has_infinity(x));
  return of_corners(x, y, may_be_nan, [](double a, double b) { return a * b; });
}

FloatRange quotients(const FloatRange& x, const FloatRange& y) {
  // Between inf / inf and its neighbours lies everything.
  if (has_zero(y) || (has_infinity(x) && has_infinity(y))) return {.may_be_nan = true};
  return of_corners(x, y, either_nan(x, y), [](double a, double b) { return a / b; });
}

FloatRange mirrored(const FloatRange& x) { return {-x.high, -x.low, x.may_be_nan}; }

FloatRange absolute(const FloatRange& x) {
  if (x.low >= 0) return x;
  if (x.high <= 0) return mirrored(x);
  return {0, std::max(-x.low, x.high), x.may_be_nan};
}

// Of a function that grows, has values from `least` to `most`, and none below `domain`.
template <class F>
FloatRange grown(const FloatRange& x, double domain, double least, double most, F f) {
  if (x.high < domain) return {.may_be_nan = true};
  const FloatRange exact{f(std::max(x.low, domain)), f(x.high), x.may_be_nan || x.low < domain};
  const FloatRange values = outward(exact, kFunction, kFunctionAbsolute);
  return {std::max(values.low, least), std::min(values.high, most), values.may_be_nan};
}

FloatRange smallest(const FloatRange& x, const FloatRange& y) {
  return {std::min(x.low, y.low), std::min(x.high, y.high), either_nan(x, y)};
}
FloatRange largest(const FloatRange& x, const FloatRange& y) {
  return {std::max(x.low, y.low), std::max(x.high, y.high), either_nan(x, y)};
}

}  // namespace

FloatRange hull(const FloatRange& a, const FloatRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), either_nan(a, b)};
}

FloatRange flushed(const FloatRange& x) {
  return {x.low > 0 && x.low <= kTiny ? 0 : x.low, x.high < 0 && x.high >= -kTiny ? 0 : x.high,
          x.may_be_nan};
}

FloatRange float_range_of(IntRange ints) {
  constexpr std::int64_t kExact = 1 << 24;  // fp32 holds ints up to here
  const FloatRange range{static_cast<double>(ints.first), static_cast<double>(ints.last), false};
  return ints.first >= -kExact && ints.last <= kExact ? range : outward(range);
}

FloatRange apply_range(Op op, std::span<const FloatRange> args) {
  const FloatRange x = args[0], y = args.size() > 1 ? args[1] : FloatRange{};
  switch (op) {
    case Op::kNegate:
      return mirrored(x);
    case Op::kAbs:
      return absolute(x);
    case Op::kExp:
      return grown(x, -kInfinity, 0, kInfinity, [](double a) { return std::exp(a); });
    case Op::kLog:
      return grown(x, 0, -kInfinity, kInfinity, [](double a) { return std::log(a); });
    case Op::kTanh:
      return grown(x, -kInfinity, -1, 1, [](double a) { return std::tanh(a); });
    case Op::kSigmoid:
      return grown(x, -kInfinity, 0, 1, [](double a) { return 1 / (1 + std::exp(-a)); });
    case Op::kSqrt:
      return grown(x, 0, 0, kInfinity, [](double a) { return std::sqrt(a); });
    case Op::kFloor:
      return {std::floor(x.low), std::floor(x.high), x.may_be_nan};
    case Op::kAdd:
      return sums(x, y);
    case Op::kSubtract:
      return sums(x, mirrored(y));
    case Op::kMultiply:
      return products(x, y);
    case Op::kDivide:
      return quotients(x, y);
    case Op::kMin:
      return smallest(x, y);
    case Op::kMax:
      return largest(x, y);
    case Op::kClamp:
      return smallest(largest(x, y), args[2]);
    default:
      throw Error(ErrorKind::kInternal, "an operation whose ranges of floats are unknown");
  }
}

}  // namespace attnjit::expr
