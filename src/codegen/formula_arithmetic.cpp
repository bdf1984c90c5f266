// The texts of operations on ints and floats.
#include <fmt/format.h>

#include <cmath>

#include "attnjit/error.hpp"
#include "codegen/formula_text.hpp"
#include "expr/operations.hpp"

namespace attnjit::codegen {

using expr::Node;
using expr::Op;
using expr::Type;
using namespace expr::precedence;

namespace {

// The reciprocal of a literal, where a product with it is as good as the quotient.
std::optional<float> reciprocal(const Node& node) {
  if (!node.is(Op::kLiteral)) return std::nullopt;
  const float value = expr::float_value(node), size = std::fabs(value);
  if (!(size > 0x1p-100f && size < 0x1p100f)) return std::nullopt;
  return 1.0f / value;
}

}  // namespace

std::string FormulaText::int_argument(int place, std::size_t n, bool wide, int least) const {
  const int arg = f_.node(place).args[n];
  if (!wide || !f_.is_narrow(arg)) return operand(arg, least);
  return fmt::format("wide({})", text(arg));
}

// In 64 bits, unless the arguments and the result are known to have no more than 32.
FormulaText::Part FormulaText::int_operation(int place) const {
  bool wide = !f_.is_narrow(place);
  for (const int arg : f_.node(place).arguments()) {
    wide |= f_.node(arg).type == Type::kInt && !f_.is_narrow(arg);
  }
  const bool shifts_left = f_.node(place).is(Op::kShiftLeft);
  const Part result = int_operation(place, wide || shifts_left);
  if ((wide || shifts_left) && f_.is_narrow(place)) return call("narrowed", {result.text});
  return result;
}

FormulaText::Part FormulaText::int_operation(int place, bool wide) const {
  const Node& node = f_.node(place);
  const auto arg = [&](std::size_t n, int least = 0) {
    return int_argument(place, n, wide, least);
  };
  const auto infix = [&](const char* op, int precedence) {
    return Part{fmt::format("{} {} {}", arg(0, precedence), op, arg(1, precedence + 1)),
                precedence};
  };
  const bool wraps = f_.may_wrap(place);
  const std::optional<int> bits =
      node.num_args > 1 ? power_of_two(f_.node(node.args[1])) : std::nullopt;
  switch (node.op) {
    case Op::kNegate:
      return wraps ? call("wrapped_negative", {arg(0)})
                   : Part{fmt::format("-{}", arg(0, kPrimary)), kPrefix};
    case Op::kAbs:
      return call("magnitude", {arg(0)});
    case Op::kAdd:
      return wraps ? call("wrapped_sum", {arg(0), arg(1)}) : infix("+", kSum);
    case Op::kSubtract:
      return wraps ? call("wrapped_difference", {arg(0), arg(1)}) : infix("-", kSum);
    case Op::kMultiply:
      return wraps ? call("wrapped_product", {arg(0), arg(1)}) : infix("*", kProduct);
    case Op::kFloorDivide:
      if (bits) return {fmt::format("{} >> {}", arg(0, kSum), *bits), kShift};
      return call("floor_quotient", {arg(0), arg(1)});
    case Op::kModulo:
      if (bits) {
        const std::int64_t mask = expr::int_value(f_.node(node.args[1])) - 1;
        return {fmt::format("{} & {}", arg(0, kPrimary), int_text(mask)), kBitAnd};
      }
      return call("floor_remainder", {arg(0), arg(1)});
    case Op::kBitAnd:
      return {fmt::format("{} & {}", arg(0, kPrimary), arg(1, kPrimary)), kBitAnd};
    case Op::kBitOr:
      return {fmt::format("{} | {}", arg(0, kPrimary), arg(1, kPrimary)), kBitOr};
    case Op::kBitXor:
      return {fmt::format("{} ^ {}", arg(0, kPrimary), arg(1, kPrimary)), kBitXor};
    case Op::kShiftLeft:
      return call("shifted_left", {arg(0), arg(1)});
    case Op::kShiftRight:
      return call("shifted_right", {arg(0), arg(1)});
    case Op::kMin:
      return call("smaller", {arg(0), arg(1)});
    case Op::kMax:
      return call("larger", {arg(0), arg(1)});
    case Op::kClamp:
      return call("clamped", {arg(0), arg(1), arg(2)});
    case Op::kSelect:
      return call("select", {argument(place, 0), arg(1), arg(2)});
    default:
      throw Error(ErrorKind::kInternal, "an operation of ints that is not rendered");
  }
}

// A product that is added to something is fused with the sum: compilers are told to fuse nothing by
// themselves.
FormulaText::Part FormulaText::float_sum(int place) const {
  const Node& node = f_.node(place);
  const bool subtracts = node.is(Op::kSubtract);
  for (const std::size_t n : {0u, 1u}) {
    const int product = node.args[n];
    if (!f_.node(product).is(Op::kMultiply) || f_.is_named(product)) continue;
    const bool negative = subtracts && n == 1;
    const std::string factor = argument(product, 0, negative ? kPrimary : 0);
    const std::string addend = argument(place, 1 - n, subtracts && n == 0 ? kPrimary : 0);
    return call("fmaf", {(negative ? "-" : "") + factor, argument(product, 1),
                         (subtracts && n == 0 ? "-" : "") + addend});
  }
  return infix(place, subtracts ? "-" : "+", kSum);
}

FormulaText::Part FormulaText::float_operation(int place) const {
  const Node& node = f_.node(place);
  switch (node.op) {
    case Op::kNegate:
      return {fmt::format("-{}", argument(place, 0, kPrimary)), kPrefix};
    case Op::kAbs:
      return call("magnitude", {argument(place, 0)});
    case Op::kExp:
      return call("ptx::exp", {argument(place, 0)});
    case Op::kLog:
      return call("log", {argument(place, 0)});
    case Op::kTanh:
      return call("tanh", {argument(place, 0)});
    case Op::kSigmoid:
      return call("sigmoid", {argument(place, 0)});
    case Op::kSqrt:
      return call("ptx::sqrt", {argument(place, 0)});
    case Op::kFloor:
      return call("ptx::floor", {argument(place, 0)});
    case Op::kAdd:
    case Op::kSubtract:
      return float_sum(place);
    case Op::kMultiply:
      return infix(place, "*", kProduct);
    case Op::kDivide:
      if (const auto factor = reciprocal(f_.node(node.args[1]))) {
        return {fmt::format("{} * {}", argument(place, 0, kProduct), float_text(*factor)),
                kProduct};
      }
      return call("ptx::divide", {argument(place, 0), argument(place, 1)});
    case Op::kMin:
      return call("smaller", {argument(place, 0), argument(place, 1)});
    case Op::kMax:
      return call("larger", {argument(place, 0), argument(place, 1)});
    case Op::kClamp:
      return call("clamped", {argument(place, 0), argument(place, 1), argument(place, 2)});
    case Op::kSelect:
      return call("select", {argument(place, 0), argument(place, 1), argument(place, 2)});
    default:
      throw Error(ErrorKind::kInternal, "an operation of floats that is not rendered");
  }
}

}  // namespace attnjit::codegen
