#pragma once
#include <cstdint>
#include <span>

#include "expr/node.hpp"

namespace attnjit::expr {

/// A value of an expression: a bool and an int in `integer`, a float in `number`.
struct Value {
  Type type = Type::kInt;
  std::int64_t integer = 0;
  double number = 0;

  static Value of(bool value) { return {Type::kBool, value ? 1 : 0, 0}; }
  static Value of(std::int64_t value) { return {Type::kInt, value, 0}; }
  static Value of(double value) { return {Type::kFloat, 0, value}; }
  bool holds() const { return integer != 0; }
};

/// Ints wrap at 64 bits. x // 0 is 0 and x % 0 is x, so that x == x // y * y + x % y for every y.
std::int64_t negated(std::int64_t x);
std::int64_t sum(std::int64_t x, std::int64_t y);
std::int64_t difference(std::int64_t x, std::int64_t y);
std::int64_t product(std::int64_t x, std::int64_t y);
std::int64_t floor_quotient(std::int64_t x, std::int64_t y);
std::int64_t floor_remainder(std::int64_t x, std::int64_t y);
/// The number of bits is clamped to 0 ... 63.
std::int64_t shifted_left(std::int64_t x, std::int64_t bits);
std::int64_t shifted_right(std::int64_t x, std::int64_t bits);

/// `x` without its fraction, the nearest int32 where it lies outside of these, 0 for NaN.
std::int64_t saturated_int32(double x);

/// NaN where one of them is; -0.0 lies below 0.0.
double smaller(double x, double y);
double larger(double x, double y);

/// The value of an operation, not of a leaf, over values that have the types of its arguments.
Value apply_operation(Op op, std::span<const Value> args);

}  // namespace attnjit::expr
