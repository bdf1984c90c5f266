#include "expr/simplifier.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "expr/arithmetic.hpp"

namespace attnjit::expr {
namespace {

constexpr std::int64_t kZero = 0, kOne = 1, kMinusOne = -1;

Value value_of(const Node& literal) {
  switch (literal.type) {
    case Type::kFloat:
      return Value::of(static_cast<double>(float_value(literal)));
    case Type::kBool:
      return Value::of(literal.payload != 0);
    default:
      return Value::of(int_value(literal));
  }
}

// The comparison of ints that holds just where `op` does not.
std::optional<Op> opposite(Op op) {
  switch (op) {
    case Op::kEqual:
      return Op::kNotEqual;
    case Op::kNotEqual:
      return Op::kEqual;
    case Op::kLess:
      return Op::kGreaterEqual;
    case Op::kLessEqual:
      return Op::kGreater;
    case Op::kGreater:
      return Op::kLessEqual;
    case Op::kGreaterEqual:
      return Op::kLess;
    default:
      return std::nullopt;
  }
}

}  // namespace

int Simplifier::make(Op op, std::span<const int> args) {
  const int place = expr::make(graph_, op, args);
  const Node node = graph_[place];
  if (node.num_args == 0) return place;
  for (const auto rule : {&Simplifier::fold, &Simplifier::of_number, &Simplifier::of_comparison,
                          &Simplifier::of_bool, &Simplifier::of_select}) {
    if (const Found found = (this->*rule)(node)) return *found;
  }
  return place;
}

Simplifier::Found Simplifier::fold(const Node& node) {
  std::array<Value, 3> values;
  for (std::size_t n = 0; n < node.num_args; ++n) {
    if (node.is(Op::kRead) || !is_constant(node.args[n])) return std::nullopt;
    values[n] = value_of(graph_[node.args[n]]);
  }
  const Value value = apply_operation(node.op, {values.data(), node.num_args});
  if (value.type == Type::kBool) return constant(value.holds());
  if (value.type == Type::kInt) return constant(value.integer);
  const auto rounded = static_cast<float>(value.number);
  const bool is_exact = std::bit_cast<std::int64_t>(static_cast<double>(rounded)) ==
                        std::bit_cast<std::int64_t>(value.number);
  if (std::isnan(value.number) || !is_exact) return std::nullopt;
  return constant(rounded);
}

Simplifier::Found Simplifier::of_number(const Node& node) {
  const int x = node.args[0], y = node.args[1];
  switch (node.op) {
    case Op::kNegate:
      if (graph_[x].is(Op::kNegate)) return graph_[x].args[0];
      return std::nullopt;
    case Op::kAbs:
      if (graph_[x].is(Op::kAbs)) return x;
      if (graph_[x].is(Op::kNegate)) return make(Op::kAbs, {graph_[x].args[0]});
      return std::nullopt;
    case Op::kMin:
    case Op::kMax:
      if (x == y) return x;
      if (graph_[x].is(node.op) && is_constant(y) && is_constant(graph_[x].args[1])) {
        const Node inner = graph_[x];
        return make(node.op, {inner.args[0], make(node.op, {inner.args[1], y})});
      }
      return std::nullopt;
    case Op::kAdd:
    case Op::kSubtract:
      if (graph_[y].is(Op::kNegate)) {
        return make(node.is(Op::kAdd) ? Op::kSubtract : Op::kAdd, {x, graph_[y].args[0]});
      }
      [[fallthrough]];
    default:
      return node.type == Type::kInt ? of_int(node) : of_float(node);
  }
}

Simplifier::Found Simplifier::of_int(const Node& node) {
  const int x = node.args[0], y = node.args[1];
  const bool commutes = node.is(Op::kAdd) || node.is(Op::kMultiply);
  if (commutes && is_constant(x)) return make(node.op, {y, x});
  switch (node.op) {
    case Op::kAdd:
      if (is(y, kZero)) return x;
      if (graph_[x].is(Op::kAdd) && is_constant(y) && is_constant(graph_[x].args[1])) {
        const Node inner = graph_[x];
        return make(Op::kAdd, {inner.args[0], make(Op::kAdd, {inner.args[1], y})});
      }
      return std::nullopt;
    case Op::kSubtract:
      if (is(y, kZero)) return x;
      if (is(x, kZero)) return make(Op::kNegate, {y});
      if (x == y) return constant(kZero);
      return std::nullopt;
    case Op::kMultiply:
      if (is(y, kZero)) return y;
      if (is(y, kOne)) return x;
      return std::nullopt;
    case Op::kFloorDivide:
      if (is(y, kOne)) return x;
      if (is(y, kZero) || is(x, kZero)) return constant(kZero);
      if (is(y, kMinusOne)) return make(Op::kNegate, {x});
      return std::nullopt;
    case Op::kModulo:
      if (is(y, kZero)) return x;
      if (is(y, kOne) || is(y, kMinusOne) || is(x, kZero) || x == y) return constant(kZero);
      return std::nullopt;
    case Op::kBitAnd:
      if (is(x, kZero) || is(y, kZero)) return constant(kZero);
      if (is(y, kMinusOne) || x == y) return x;
      if (is(x, kMinusOne)) return y;
      return std::nullopt;
    case Op::kBitOr:
      if (is(y, kZero) || x == y) return x;
      if (is(x, kZero)) return y;
      return std::nullopt;
    case Op::kBitXor:
      if (x == y) return constant(kZero);
      [[fallthrough]];
    case Op::kShiftLeft:
    case Op::kShiftRight:
      if (is(y, kZero)) return x;
      if (is(x, kZero)) return node.is(Op::kBitXor) ? y : x;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Simplifier::Found Simplifier::of_float(const Node& node) {
  const int x = node.args[0], y = node.args[1];
  switch (node.op) {
    case Op::kAdd:
      if (is(y, -0.f)) return x;
      if (is(x, -0.f)) return y;
      return std::nullopt;
    case Op::kSubtract:
      if (is(y, 0.f)) return x;
      return std::nullopt;
    case Op::kMultiply:
      if (is(y, 1.f)) return x;
      if (is(x, 1.f)) return y;
      if (is(y, -1.f)) return make(Op::kNegate, {x});
      if (is(x, -1.f)) return make(Op::kNegate, {y});
      return std::nullopt;
    case Op::kDivide:
      if (is(y, 1.f)) return x;
      if (is(y, -1.f)) return make(Op::kNegate, {x});
      return std::nullopt;
    case Op::kFloor:
      if (graph_[x].is(Op::kFloor)) return x;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Simplifier::Found Simplifier::of_comparison(const Node& node) {
  if (!opposite(node.op)) return std::nullopt;
  const int x = node.args[0], y = node.args[1];
  if (x != y || graph_[x].type == Type::kFloat) return std::nullopt;  // NaN equals nothing
  return constant(node.is(Op::kEqual) || node.is(Op::kLessEqual) || node.is(Op::kGreaterEqual));
}

Simplifier::Found Simplifier::of_bool(const Node& node) {
  const int x = node.args[0], y = node.args[1];
  switch (node.op) {
    case Op::kNot:
      return of_not(x);
    case Op::kAnd:
    case Op::kOr: {
      const bool neutral = node.is(Op::kAnd);
      if (is(x, neutral) || x == y) return y;
      if (is(y, neutral)) return x;
      if (is(x, !neutral) || is(y, !neutral)) return constant(!neutral);
      return std::nullopt;
    }
    case Op::kEqual:
      if (is(y, true)) return x;
      if (is(x, true)) return y;
      if (is(y, false)) return make(Op::kNot, {x});
      if (is(x, false)) return make(Op::kNot, {y});
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Simplifier::Found Simplifier::of_not(int arg) {
  const Node node = graph_[arg];
  if (node.is(Op::kNot)) return node.args[0];
  const std::optional<Op> op = opposite(node.op);
  if (!op) return std::nullopt;
  const bool is_order = *op != Op::kEqual && *op != Op::kNotEqual;
  if (is_order && !is_int(node.args[0])) return std::nullopt;  // neither holds of NaN
  return make(*op, node.arguments());
}

Simplifier::Found Simplifier::of_select(const Node& node) {
  if (!node.is(Op::kSelect)) return std::nullopt;
  const int condition = node.args[0], a = node.args[1], b = node.args[2];
  if (is_constant(condition)) return is(condition, true) ? a : b;
  if (a == b) return a;
  if (graph_[condition].is(Op::kNot)) {
    return make(Op::kSelect, {graph_[condition].args[0], b, a});
  }
  if (is(a, true) && is(b, false)) return condition;
  if (is(a, false) && is(b, true)) return make(Op::kNot, {condition});
  return std::nullopt;
}

}  // namespace attnjit::expr
