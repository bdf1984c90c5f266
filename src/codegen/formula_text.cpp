#include "codegen/formula_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/dtype.hpp"
#include "expr/operations.hpp"

namespace attnjit::codegen {
namespace {

using expr::Index;
using expr::Node;
using expr::Op;
using expr::Type;
using namespace expr::precedence;

}  // namespace

std::string float_text(float value) {
  if (std::isinf(value)) return value < 0 ? "-ptx::infinity()" : "ptx::infinity()";
  char digits[32];
  std::string text(std::begin(digits),
                   std::to_chars(std::begin(digits), std::end(digits), value).ptr);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text + "f";
}

std::string int_text(std::int64_t value) {
  if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807ll - 1)";
  if (value == std::numeric_limits<std::int32_t>::min()) return "(-2147483647 - 1)";
  const bool narrow = value == static_cast<std::int32_t>(value);
  return fmt::format("{}{}", value, narrow ? "" : "ll");
}

std::optional<int> power_of_two(const Node& node) {
  if (!node.is(Op::kLiteral) || node.type != Type::kInt || node.payload <= 0) return std::nullopt;
  const auto value = static_cast<std::uint64_t>(node.payload);
  if (!std::has_single_bit(value)) return std::nullopt;
  return std::countr_zero(value);
}

FormulaText::Part FormulaText::call(std::string_view function,
                                    std::initializer_list<std::string> args) {
  return {fmt::format("{}({})", function, fmt::join(args, ", ")), kPrimary};
}

std::string FormulaText::operand(int place, int least) const {
  if (f_.is_named(place)) return name_of(place);
  const Part p = part(place);
  return p.precedence < least ? fmt::format("({})", p.text) : p.text;
}

// C++ takes & and | of bools for ints.
std::string FormulaText::as_typed(int place, std::string text) const {
  const Node& node = f_.node(place);
  const bool is_int = node.is(Op::kAnd) || node.is(Op::kOr);
  return is_int && is_value(place) ? fmt::format("bool({})", text) : text;
}

std::string FormulaText::typed_argument(int place, std::size_t n) const {
  const int arg = f_.node(place).args[n];
  return f_.is_named(arg) ? text(arg) : as_typed(arg, text(arg));
}

FormulaText::Part FormulaText::part(int place) const {
  const Node& node = f_.node(place);
  switch (node.op) {
    case Op::kLiteral:
    case Op::kIndex:
    case Op::kScore:
      return leaf(node);
    case Op::kRead:
      return read(node);
    case Op::kToFloat:
      return call("to_float", {typed_argument(place, 0)});
    case Op::kToInt:
      return call("to_int", {typed_argument(place, 0)});
    default:
      break;
  }
  if (node.type == Type::kBool) return logic(place);
  return node.type == Type::kInt ? int_operation(place) : float_operation(place);
}

FormulaText::Part FormulaText::leaf(const Node& node) const {
  if (node.is(Op::kScore)) return {"s", kPrimary};
  if (node.is(Op::kIndex)) {
    const auto index = static_cast<Index>(node.payload);
    const bool of_pair = index == Index::kRow || index == Index::kKey;
    return {fmt::format("{}{}", of_pair ? "" : "at.", expr::name(index)), kPrimary};
  }
  if (node.type == Type::kBool) return {node.payload != 0 ? "true" : "false", kPrimary};
  const std::string text = node.type == Type::kInt ? int_text(expr::int_value(node))
                                                   : float_text(expr::float_value(node));
  return {text, text[0] == '-' ? kPrefix : kPrimary};
}

// Rows and keys lie in the lines of an operand, other indices may exceed them.
bool FormulaText::is_in_line(const Node& read) const {
  if (!f_.has_range(read)) return false;
  const Node& index = f_.node(read.args[*f_.varying_axis(read)]);
  return index == expr::index(Index::kRow) || index == expr::index(Index::kKey);
}

FormulaText::Part FormulaText::line(const Node& read) const {
  const auto operand = static_cast<std::size_t>(read.operand);
  std::string args = fmt::format("params.operands[{}]", f_.operands[operand]);
  for (const int index : read.arguments()) {
    args += ", " + (f_.varies(index) ? std::string("along") : text(index));
  }
  return {fmt::format("line_{}({})", base::word(f_.dtypes[operand]), args), kPrimary};
}

std::string FormulaText::place_of(const Node& read) const {
  std::string args =
      fmt::format("params.operands[{}]", f_.operands[static_cast<std::size_t>(read.operand)]);
  for (const int index : read.arguments()) {
    const bool is_natural = f_.range(index).ints.first >= 0;
    args += ", " + (is_natural ? fmt::format("natural({})", text(index)) : text(index));
  }
  return args;
}

FormulaText::Part FormulaText::read(const Node& node) const {
  if (is_in_line(node)) return line(node);
  const DType dtype = f_.dtypes[static_cast<std::size_t>(node.operand)];
  return {fmt::format("read_{}({})", base::word(dtype), place_of(node)), kPrimary};
}

FormulaText::Part FormulaText::infix(int place, const char* op, int precedence) const {
  return {fmt::format("{} {} {}", argument(place, 0, precedence), op,
                      argument(place, 1, precedence + 1)),
          precedence};
}

// && and || without branches, and with the brackets that compilers ask for.
FormulaText::Part FormulaText::logic(int place) const {
  const Op op = f_.node(place).op;
  switch (op) {
    case Op::kNot:
      return {fmt::format("!{}", argument(place, 0, kPrimary)), kPrefix};
    case Op::kAnd:
    case Op::kOr:
      return {fmt::format("{} {} {}", argument(place, 0, kPrimary), op == Op::kAnd ? "&" : "|",
                          argument(place, 1, kPrimary)),
              op == Op::kAnd ? kBitAnd : kBitOr};
    case Op::kSelect:
      return call("select",
                  {argument(place, 0), typed_argument(place, 1), typed_argument(place, 2)});
    case Op::kEqual:
    case Op::kNotEqual:
      return infix(place, expr::operation(op).text, kEquality);
    default:
      return infix(place, expr::operation(op).text, kOrder);
  }
}

}  // namespace attnjit::codegen
