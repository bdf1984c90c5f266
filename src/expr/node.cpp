#include "expr/node.hpp"

#include <bit>
#include <cmath>

#include "attnjit/error.hpp"

namespace attnjit::expr {
namespace {

Node leaf(Op op, Type type, std::int64_t payload) {
  Node node;
  node.op = op;
  node.type = type;
  node.payload = payload;
  return node;
}

}  // namespace

const char* name(Type type) {
  switch (type) {
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "int";
    case Type::kFloat:
      return "float";
  }
  throw Error(ErrorKind::kInternal, "a type of expressions without a name");
}

Node literal(bool value) { return leaf(Op::kLiteral, Type::kBool, value ? 1 : 0); }

Node literal(std::int64_t value) { return leaf(Op::kLiteral, Type::kInt, value); }

Node literal(float value) {
  if (std::isnan(value)) {
    throw Error(ErrorKind::kInvalidProblem, "a literal is NaN; expected a number or an infinity");
  }
  return leaf(Op::kLiteral, Type::kFloat, std::bit_cast<std::int32_t>(value));
}

Node index(Index which) { return leaf(Op::kIndex, Type::kInt, static_cast<int>(which)); }

Node score() { return leaf(Op::kScore, Type::kFloat, 0); }

std::int64_t int_value(const Node& node) { return node.payload; }

float float_value(const Node& node) {
  return std::bit_cast<float>(static_cast<std::int32_t>(node.payload));
}

bool is_literal(const Node& node, bool value) { return node == literal(value); }
bool is_literal(const Node& node, std::int64_t value) { return node == literal(value); }
bool is_literal(const Node& node, float value) { return node == literal(value); }

}  // namespace attnjit::expr
