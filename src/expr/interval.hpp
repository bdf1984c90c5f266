#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "expr/evaluate.hpp"

namespace attnjit::expr {

/// Ints first <= x <= last.
struct IntRange {
  std::int64_t first = std::numeric_limits<std::int64_t>::min();
  std::int64_t last = std::numeric_limits<std::int64_t>::max();

  bool is_one() const { return first == last; }
  bool contains(std::int64_t x) const { return first <= x && x <= last; }
  bool operator==(const IntRange&) const = default;
};

/// Floats low <= x <= high, and NaN besides where it may be one.
struct FloatRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool may_be_nan = false;
};

/// Values that an expression may have: a bool has 0, 1 or both in `ints`, a float its `floats`.
struct Range {
  Type type = Type::kInt;
  IntRange ints;
  FloatRange floats;

  static Range of(IntRange ints) { return {Type::kInt, ints, {}}; }
  static Range of(FloatRange floats) { return {Type::kFloat, {}, floats}; }
  static Range of_bool(bool may_be_false, bool may_be_true) {
    return {Type::kBool, {may_be_false ? 0 : 1, may_be_true ? 1 : 0}, {}};
  }
  /// All values of a type.
  static Range all(Type type);
  bool contains(const Value& value) const;
};

/// Knowledge of an operand: its sizes, and the range of its elements within ranges of its
/// indices, which lie inside the sizes.
struct OperandRanges {
  Places shape{};
  std::function<Range(std::span<const IntRange>)> read;
};

/// Operands of any size whose elements may be any of their types, floats of `floats`.
std::vector<OperandRanges> unknown_operands(const Expr& e, const FloatRange& floats);

/// A set of points. `operands` are those of the expression, in its order.
struct Box {
  PerIndex<IntRange> indices;
  FloatRange score{.may_be_nan = true};
  std::span<const OperandRanges> operands;
};

/// A range that contains the value of `e` at every point of `box`: interval arithmetic (R. E.
/// Moore, Interval Analysis, 1966). Floats are rounded outward, by 2^-20 of a result and by more
/// for exp, log, tanh and sigmoid, so that they hold what fp64 gives and what a kernel does in
/// fp32. Ints that could wrap may be any. Two uses of one index are taken as independent: the range
/// may be wider than need be, and is never narrower.
Range range(const Expr& e, const Box& box);

/// The ranges of all nodes of `e`.
std::vector<Range> ranges_of_nodes(const Expr& e, const Box& box);

/// Knowledge of a bool.
enum class Truth { kNever, kUnknown, kAlways };

/// The truth of a bool expression over a box; kNever and kAlways are proven.
Truth truth(const Expr& e, const Box& box);

}  // namespace attnjit::expr
