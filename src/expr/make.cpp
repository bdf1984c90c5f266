#include "expr/make.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "attnjit/error.hpp"
#include "base/printable.hpp"
#include "expr/arithmetic.hpp"
#include "expr/operations.hpp"
#include "expr/reject.hpp"

namespace attnjit::expr {
namespace {

constexpr std::size_t kMaxName = 64;  // messages and tables stay readable

// "the left side of &&", "argument 2 of clamp".
std::string argument(Op op, std::size_t place) {
  const Operation& o = operation(op);
  switch (o.notation) {
    case Notation::kInfix:
      return fmt::format("the {} side of {}", place == 0 ? "left" : "right", o.text);
    case Notation::kTernary:
      return place == 0 ? "the condition of ? :" : "a value of ? :";
    case Notation::kFunction:
      return o.num_args == 1 ? fmt::format("the argument of {}", o.text)
                             : fmt::format("argument {} of {}", place + 1, o.text);
    default:
      return fmt::format("what follows {}", o.text);
  }
}

void expect(bool fits, Op op, std::size_t place, Type type, const char* expected) {
  if (!fits) reject("{} is {}; expected {}", argument(op, place), name(type), expected);
}

int add_operation(Graph& graph, Op op, Type type, std::span<const int> args) {
  Node node;
  node.op = op;
  node.type = type;
  node.num_args = static_cast<std::uint8_t>(args.size());
  std::ranges::copy(args, node.args.begin());
  return graph.add(node);
}

int to_float(Graph& graph, int value) {
  const Node node = graph[value];
  if (node.type == Type::kFloat) return value;
  if (node.is(Op::kLiteral) && node.type == Type::kInt) {
    const auto number = static_cast<float>(int_value(node));
    const bool is_int64 = number < 0x1p63f;  // the largest int64 is rounded up
    if (is_int64 && static_cast<std::int64_t>(number) == int_value(node)) {
      return graph.add(literal(number));
    }
  }
  return add_operation(graph, Op::kToFloat, Type::kFloat, {&value, 1});
}

// A literal's negative, so that -5 is one node.
int negate(Graph& graph, Type type, int value) {
  const Node node = graph[value];
  if (!node.is(Op::kLiteral)) return add_operation(graph, Op::kNegate, type, {&value, 1});
  return type == Type::kInt ? graph.add(literal(negated(int_value(node))))
                            : graph.add(literal(-float_value(node)));
}

// The arguments from `first` on made of one type, a float where one is.
Type unify(Graph& graph, std::span<int> args, std::size_t first) {
  const auto is_float = [&](int arg) { return graph[arg].type == Type::kFloat; };
  const auto same_kind = args.subspan(first);
  if (std::ranges::none_of(same_kind, is_float)) return graph[same_kind[0]].type;
  for (int& arg : same_kind) arg = to_float(graph, arg);
  return Type::kFloat;
}

void check_types(const Graph& graph, Op op, std::span<const int> args) {
  const Signature signature = operation(op).signature;
  for (std::size_t n = 0; n < args.size(); ++n) {
    const Type type = graph[args[n]].type;
    switch (signature) {
      case Signature::kArithmetic:
      case Signature::kReal:
      case Signature::kOrder:
        expect(type != Type::kBool, op, n, type, "int or float (int() and float() convert)");
        break;
      case Signature::kInteger:
        expect(type == Type::kInt, op, n, type, "int");
        break;
      case Signature::kLogic:
        expect(type == Type::kBool, op, n, type, "bool");
        break;
      case Signature::kEquality:
      case Signature::kSelect: {
        const bool is_condition = signature == Signature::kSelect && n == 0;
        if (is_condition) expect(type == Type::kBool, op, n, type, "bool");
        const Type last = graph[args.back()].type;
        if (!is_condition && (type == Type::kBool) != (last == Type::kBool)) {
          reject("{} is {} and the other {}; expected two bools or two numbers", argument(op, n),
                 name(type), name(last));
        }
        break;
      }
      default:
        break;
    }
  }
}

}  // namespace

int make(Graph& graph, Op op, std::span<const int> args) {
  const Operation& o = operation(op);
  if (static_cast<int>(args.size()) != o.num_args) {
    reject("{}: the number of arguments is {}; expected {}", o.text, args.size(), o.num_args);
  }
  check_types(graph, op, args);
  std::array<int, 3> copies{};
  const std::span<int> converted(copies.begin(), std::ranges::copy(args, copies.begin()).out);
  switch (o.signature) {
    case Signature::kArithmetic: {
      const Type type = unify(graph, converted, 0);
      if (op == Op::kNegate) return negate(graph, type, converted[0]);
      return add_operation(graph, op, type, converted);
    }
    case Signature::kReal:
      for (int& arg : converted) arg = to_float(graph, arg);
      return add_operation(graph, op, Type::kFloat, converted);
    case Signature::kInteger:
      return add_operation(graph, op, Type::kInt, converted);
    case Signature::kOrder:
    case Signature::kEquality:
      unify(graph, converted, 0);
      return add_operation(graph, op, Type::kBool, converted);
    case Signature::kLogic:
      return add_operation(graph, op, Type::kBool, converted);
    case Signature::kToFloat:
      return to_float(graph, converted[0]);
    case Signature::kToInt:
      if (graph[converted[0]].type == Type::kInt) return converted[0];
      return add_operation(graph, op, Type::kInt, converted);
    case Signature::kSelect: {
      const Type type = unify(graph, converted, 1);
      return add_operation(graph, op, type, converted);
    }
    case Signature::kNone:
      break;
  }
  throw Error(ErrorKind::kInternal, "a leaf was made as an operation");
}

int make_read(Graph& graph, int operand, std::span<const int> indices) {
  const OperandDeclaration& declaration = graph.operands()[static_cast<std::size_t>(operand)];
  if (static_cast<int>(indices.size()) != declaration.rank) {
    reject("operand {}: the number of indices is {}; expected {}", declaration.name, indices.size(),
           declaration.rank);
  }
  for (std::size_t n = 0; n < indices.size(); ++n) {
    const Type type = graph[indices[n]].type;
    if (type != Type::kInt) {
      reject("index {} of operand {} is {}; expected int", n + 1, declaration.name, name(type));
    }
  }
  Node node;
  node.op = Op::kRead;
  node.type = declaration.type;
  node.num_args = static_cast<std::uint8_t>(indices.size());
  node.operand = static_cast<std::int16_t>(operand);
  std::ranges::copy(indices, node.args.begin());
  return graph.add(node);
}

int make_root(Graph& graph, Kind kind, int value) {
  const Type type = graph[value].type;
  if (kind == Kind::kScore) {
    if (type == Type::kBool) reject("the score is bool; expected float");
    return to_float(graph, value);
  }
  if (type != Type::kBool) reject("the keep expression is {}; expected bool", name(type));
  if ((uses(graph.finish(value)) & kUsesScore) != 0) {
    reject("s is used in a keep expression; expected it in a score alone");
  }
  return value;
}

Expr as_kind(Kind kind, const Expr& e) {
  Graph graph;
  return graph.finish(make_root(graph, kind, graph.import(e).back()));
}

void check_declarations(std::span<const OperandDeclaration> operands) {
  for (std::size_t n = 0; n < operands.size(); ++n) {
    const auto& [name, type, rank] = operands[n];
    const auto is_letter = [](unsigned char c) { return c < 128 && (std::isalnum(c) || c == '_'); };
    const bool is_word = !name.empty() && name.size() <= kMaxName &&
                         std::ranges::all_of(name, is_letter) &&
                         !std::isdigit(static_cast<unsigned char>(name[0]));
    if (!is_word) {
      reject("operand \"{}\": expected a name of 1 to {} letters, digits and underscores",
             base::excerpt(name, kMaxName), kMaxName);
    }
    if (is_reserved(name)) reject("operand {}: a word of the grammar; expected another", name);
    if (rank < 0 || rank > kMaxRank) {
      reject("operand {}: rank is {}; expected 0 to {}", name, rank, kMaxRank);
    }
    for (std::size_t m = 0; m < n; ++m) {
      if (operands[m].name == name) reject("operand {} is declared twice", name);
    }
  }
}

}  // namespace attnjit::expr
