#include "expr/arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attnjit/error.hpp"

namespace attnjit::expr {
namespace {

std::uint64_t bits(std::int64_t x) { return static_cast<std::uint64_t>(x); }
std::int64_t wrapped(std::uint64_t x) { return static_cast<std::int64_t>(x); }

Value apply_to_ints(Op op, std::int64_t x, std::int64_t y, std::int64_t z) {
  switch (op) {
    case Op::kNegate:
      return Value::of(negated(x));
    case Op::kAbs:
      return Value::of(x < 0 ? negated(x) : x);
    case Op::kAdd:
      return Value::of(sum(x, y));
    case Op::kSubtract:
      return Value::of(difference(x, y));
    case Op::kMultiply:
      return Value::of(product(x, y));
    case Op::kFloorDivide:
      return Value::of(floor_quotient(x, y));
    case Op::kModulo:
      return Value::of(floor_remainder(x, y));
    case Op::kBitAnd:
      return Value::of(x & y);
    case Op::kBitOr:
      return Value::of(x | y);
    case Op::kBitXor:
      return Value::of(x ^ y);
    case Op::kShiftLeft:
      return Value::of(shifted_left(x, y));
    case Op::kShiftRight:
      return Value::of(shifted_right(x, y));
    case Op::kMin:
      return Value::of(std::min(x, y));
    case Op::kMax:
      return Value::of(std::max(x, y));
    case Op::kClamp:
      return Value::of(std::min(std::max(x, y), z));
    case Op::kEqual:
      return Value::of(x == y);
    case Op::kNotEqual:
      return Value::of(x != y);
    case Op::kLess:
      return Value::of(x < y);
    case Op::kLessEqual:
      return Value::of(x <= y);
    case Op::kGreater:
      return Value::of(x > y);
    case Op::kGreaterEqual:
      return Value::of(x >= y);
    default:
      throw Error(ErrorKind::kInternal, "an operation that ints do not have");
  }
}

Value apply_to_floats(Op op, double x, double y, double z) {
  switch (op) {
    case Op::kNegate:
      return Value::of(-x);
    case Op::kAbs:
      return Value::of(std::fabs(x));
    case Op::kExp:
      return Value::of(std::exp(x));
    case Op::kLog:
      return Value::of(std::log(x));
    case Op::kTanh:
      return Value::of(std::tanh(x));
    case Op::kSigmoid:
      return Value::of(1 / (1 + std::exp(-x)));
    case Op::kSqrt:
      return Value::of(std::sqrt(x));
    case Op::kFloor:
      return Value::of(std::floor(x));
    case Op::kAdd:
      return Value::of(x + y);
    case Op::kSubtract:
      return Value::of(x - y);
    case Op::kMultiply:
      return Value::of(x * y);
    case Op::kDivide:
      return Value::of(x / y);
    case Op::kMin:
      return Value::of(smaller(x, y));
    case Op::kMax:
      return Value::of(larger(x, y));
    case Op::kClamp:
      return Value::of(smaller(larger(x, y), z));
    case Op::kEqual:
      return Value::of(x == y);
    case Op::kNotEqual:
      return Value::of(x != y);
    case Op::kLess:
      return Value::of(x < y);
    case Op::kLessEqual:
      return Value::of(x <= y);
    case Op::kGreater:
      return Value::of(x > y);
    case Op::kGreaterEqual:
      return Value::of(x >= y);
    default:
      throw Error(ErrorKind::kInternal, "an operation that floats do not have");
  }
}

}  // namespace

std::int64_t negated(std::int64_t x) { return wrapped(0 - bits(x)); }
std::int64_t sum(std::int64_t x, std::int64_t y) { return wrapped(bits(x) + bits(y)); }
std::int64_t difference(std::int64_t x, std::int64_t y) { return wrapped(bits(x) - bits(y)); }
std::int64_t product(std::int64_t x, std::int64_t y) { return wrapped(bits(x) * bits(y)); }

std::int64_t floor_quotient(std::int64_t x, std::int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return negated(x);  // the lowest int has no quotient by -1
  const std::int64_t quotient = x / y;
  return quotient * y != x && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_remainder(std::int64_t x, std::int64_t y) {
  if (y == 0) return x;
  if (y == -1) return 0;
  const std::int64_t rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

std::int64_t shifted_left(std::int64_t x, std::int64_t count) {
  return wrapped(bits(x) << std::clamp<std::int64_t>(count, 0, 63));
}

std::int64_t shifted_right(std::int64_t x, std::int64_t count) {
  return x >> std::clamp<std::int64_t>(count, 0, 63);
}

std::int64_t saturated_int32(double x) {
  constexpr double kLowest = std::numeric_limits<std::int32_t>::min();
  constexpr double kHighest = std::numeric_limits<std::int32_t>::max();
  return std::isnan(x) ? 0 : static_cast<std::int64_t>(std::clamp(x, kLowest, kHighest));
}

double smaller(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}

double larger(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
  if (x == y) return std::signbit(x) ? y : x;
  return x < y ? y : x;
}

Value apply_operation(Op op, std::span<const Value> args) {
  const Value x = args[0], y = args.size() > 1 ? args[1] : Value{},
              z = args.size() > 2 ? args[2] : Value{};
  switch (op) {
    case Op::kNot:
      return Value::of(!x.holds());
    case Op::kAnd:
      return Value::of(x.holds() && y.holds());
    case Op::kOr:
      return Value::of(x.holds() || y.holds());
    case Op::kSelect:
      return x.holds() ? y : z;
    case Op::kToFloat:
      return x.type == Type::kFloat ? x : Value::of(static_cast<double>(x.integer));
    case Op::kToInt:
      return Value::of(x.type == Type::kFloat ? saturated_int32(x.number) : x.integer);
    default:
      return x.type == Type::kFloat ? apply_to_floats(op, x.number, y.number, z.number)
                                    : apply_to_ints(op, x.integer, y.integer, z.integer);
  }
}

}  // namespace attnjit::expr
