#include "expr/evaluate.hpp"

#include <algorithm>
#include <utility>

namespace attnjit::expr {
namespace {

Value literal_value(const Node& node) {
  return node.type == Type::kFloat ? Value::of(static_cast<double>(float_value(node)))
                                   : Value{node.type, node.payload, 0};
}

}  // namespace

Evaluator::Evaluator(Expr e)
    : e_(std::move(e)), values_(e_.nodes().size()), times_(e_.nodes().size(), 0) {}

Value Evaluator::operator()(const Environment& environment) {
  environment_ = &environment;
  ++time_;
  return value(e_.root());
}

Value Evaluator::value(int place) {
  const auto n = static_cast<std::size_t>(place);
  if (times_[n] != time_) {
    values_[n] = compute(e_.nodes()[n]);
    times_[n] = time_;
  }
  return values_[n];
}

Value Evaluator::compute(const Node& node) {
  switch (node.op) {
    case Op::kLiteral:
      return literal_value(node);
    case Op::kIndex:
      return Value::of(environment_->indices[static_cast<Index>(node.payload)]);
    case Op::kScore:
      return Value::of(environment_->score);
    case Op::kRead:
      return read(node);
    case Op::kSelect:
      return value(node.args[value(node.args[0]).holds() ? 1 : 2]);
    case Op::kAnd:
      return value(node.args[0]).holds() ? value(node.args[1]) : Value::of(false);
    case Op::kOr:
      return value(node.args[0]).holds() ? Value::of(true) : value(node.args[1]);
    default:
      break;
  }
  std::array<Value, 3> args;
  for (std::size_t n = 0; n < node.num_args; ++n) args[n] = value(node.args[n]);
  return apply_operation(node.op, {args.data(), node.num_args});
}

Value Evaluator::read(const Node& node) {
  const OperandReader& operand = environment_->operands[static_cast<std::size_t>(node.operand)];
  Places places{};
  for (std::size_t n = 0; n < node.num_args; ++n) {
    if (operand.shape[n] <= 0) return {node.type, 0, 0};
    const std::int64_t index = value(node.args[n]).integer;
    places[n] = std::clamp<std::int64_t>(index, 0, operand.shape[n] - 1);
    if (environment_->outside != nullptr && places[n] != index && operand.shape[n] > 1) {
      (*environment_->outside)(node.operand, n, index);
    }
  }
  return operand.read(places);
}

Value evaluate(const Expr& e, const Environment& environment) { return Evaluator(e)(environment); }

}  // namespace attnjit::expr
