#include "expr/interval.hpp"

#include <algorithm>
#include <array>

#include "attnjit/error.hpp"
#include "expr/float_range.hpp"
#include "expr/int_range.hpp"

namespace attnjit::expr {
namespace {

bool may_be(const Range& range, bool value) { return range.ints.contains(value ? 1 : 0); }

IntRange clamped(IntRange index, std::int64_t size) {
  return {std::clamp<std::int64_t>(index.first, 0, size - 1),
          std::clamp<std::int64_t>(index.last, 0, size - 1)};
}

// That x < y (or x <= y, ...) may fail and may hold, given both bounds of each.
template <class T>
Range ordered(T x_low, T x_high, T y_low, T y_high, bool or_equal) {
  const bool may_hold = or_equal ? x_low <= y_high : x_low < y_high;
  const bool may_fail = or_equal ? x_high > y_low : x_high >= y_low;
  return Range::of_bool(may_fail, may_hold);
}

template <class T>
Range compared(Op op, T x_low, T x_high, T y_low, T y_high) {
  switch (op) {
    case Op::kLess:
    case Op::kLessEqual:
      return ordered(x_low, x_high, y_low, y_high, op == Op::kLessEqual);
    case Op::kGreater:
    case Op::kGreaterEqual:
      return ordered(y_low, y_high, x_low, x_high, op == Op::kGreaterEqual);
    default: {
      const bool may_equal = x_low <= y_high && y_low <= x_high;
      const bool may_differ = !(x_low == x_high && y_low == y_high && x_low == y_low);
      return op == Op::kEqual ? Range::of_bool(may_differ, may_equal)
                              : Range::of_bool(may_equal, may_differ);
    }
  }
}

Range comparison(Op op, const Range& x, const Range& y) {
  if (x.type != Type::kFloat) {
    return compared(op, x.ints.first, x.ints.last, y.ints.first, y.ints.last);
  }
  const Range plain = compared(op, x.floats.low, x.floats.high, y.floats.low, y.floats.high);
  if (!x.floats.may_be_nan && !y.floats.may_be_nan) return plain;
  // Of NaN != holds and nothing else does.
  const bool of_nan = op == Op::kNotEqual;
  return Range::of_bool(may_be(plain, false) || !of_nan, may_be(plain, true) || of_nan);
}

Range hull(const Range& a, const Range& b) {
  if (a.type == Type::kFloat) return Range::of(hull(a.floats, b.floats));
  return {a.type, hull(a.ints, b.ints), {}};
}

Range convert(Op op, const Range& x) {
  if (op == Op::kToFloat) return Range::of(float_range_of(x.ints));
  return Range::of(x.type == Type::kFloat ? int_range_of(x.floats) : x.ints);
}

Range apply_range(const Node& node, std::span<const Range> args) {
  const Range& x = args[0];
  switch (node.op) {
    case Op::kNot:
      return Range::of_bool(may_be(x, true), may_be(x, false));
    case Op::kAnd:
      return Range::of_bool(may_be(x, false) || may_be(args[1], false),
                            may_be(x, true) && may_be(args[1], true));
    case Op::kOr:
      return Range::of_bool(may_be(x, false) && may_be(args[1], false),
                            may_be(x, true) || may_be(args[1], true));
    case Op::kSelect:
      if (!may_be(x, false)) return args[1];
      return may_be(x, true) ? hull(args[1], args[2]) : args[2];
    case Op::kToFloat:
    case Op::kToInt:
      return convert(node.op, x);
    case Op::kEqual:
    case Op::kNotEqual:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
      return comparison(node.op, x, args[1]);
    default:
      break;
  }
  if (node.type == Type::kInt) {
    std::array<IntRange, 3> ints;
    std::ranges::transform(args, ints.begin(), &Range::ints);
    return Range::of(apply_range(node.op, std::span(ints).first(args.size())));
  }
  std::array<FloatRange, 3> floats;
  std::ranges::transform(args, floats.begin(), &Range::floats);
  return Range::of(apply_range(node.op, std::span(floats).first(args.size())));
}

Range literal_range(const Node& node) {
  if (node.type != Type::kFloat) return {node.type, {node.payload, node.payload}, {}};
  const double value = float_value(node);
  return Range::of(flushed({value, value, false}));
}

Range read_range(const Node& node, const OperandRanges& operand, std::span<const Range> indices) {
  std::array<IntRange, kMaxRank> places;
  for (std::size_t n = 0; n < indices.size(); ++n) {
    if (operand.shape[n] <= 0) return {node.type, {0, 0}, {0, 0, false}};
    places[n] = clamped(indices[n].ints, operand.shape[n]);
  }
  Range elements = operand.read(std::span(places).first(indices.size()));
  elements.floats = flushed(elements.floats);
  return elements;
}

}  // namespace

Range Range::all(Type type) {
  if (type == Type::kBool) return of_bool(true, true);
  if (type == Type::kInt) return of(IntRange{});
  return of(FloatRange{.may_be_nan = true});
}

bool Range::contains(const Value& value) const {
  if (value.type != type) return false;
  if (type != Type::kFloat) return ints.contains(value.integer);
  if (value.number != value.number) return floats.may_be_nan;
  return floats.low <= value.number && value.number <= floats.high;
}

std::vector<Range> ranges_of_nodes(const Expr& e, const Box& box) {
  std::vector<Range> ranges;
  ranges.reserve(e.nodes().size());
  for (const Node& node : e.nodes()) {
    std::array<Range, kMaxRank> args;
    for (std::size_t n = 0; n < node.num_args; ++n) {
      args[n] = ranges[static_cast<std::size_t>(node.args[n])];
    }
    const auto known = std::span(args).first(node.num_args);
    switch (node.op) {
      case Op::kLiteral:
        ranges.push_back(literal_range(node));
        break;
      case Op::kIndex:
        ranges.push_back(Range::of(box.indices[static_cast<Index>(node.payload)]));
        break;
      case Op::kScore:
        ranges.push_back(Range::of(flushed(box.score)));
        break;
      case Op::kRead:
        ranges.push_back(
            read_range(node, box.operands[static_cast<std::size_t>(node.operand)], known));
        break;
      default:
        ranges.push_back(apply_range(node, known));
    }
  }
  return ranges;
}

std::vector<OperandRanges> unknown_operands(const Expr& e, const FloatRange& floats) {
  constexpr IntRange kInt32{std::numeric_limits<std::int32_t>::min(),
                            std::numeric_limits<std::int32_t>::max()};
  std::vector<OperandRanges> operands;
  for (const OperandDeclaration& operand : e.operands()) {
    OperandRanges ranges;
    ranges.shape.fill(kInt32.last);
    const Range elements = operand.type == Type::kFloat ? Range::of(floats)
                           : operand.type == Type::kInt ? Range::of(kInt32)
                                                        : Range::of_bool(true, true);
    ranges.read = [elements](std::span<const IntRange>) { return elements; };
    operands.push_back(std::move(ranges));
  }
  return operands;
}

Range range(const Expr& e, const Box& box) { return ranges_of_nodes(e, box).back(); }

Truth truth(const Expr& e, const Box& box) {
  if (e.type() != Type::kBool) throw Error(ErrorKind::kInternal, "the truth of what is no bool");
  const Range values = range(e, box);
  if (!may_be(values, true)) return Truth::kNever;
  return may_be(values, false) ? Truth::kUnknown : Truth::kAlways;
}

}  // namespace attnjit::expr
