#include "expr/print.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "attnjit/error.hpp"
#include "expr/graph.hpp"
#include "expr/operations.hpp"

namespace attnjit::expr {
namespace {

std::string float_text(float value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  std::string text(digits, end);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string literal_text(const Node& node) {
  switch (node.type) {
    case Type::kBool:
      return node.payload != 0 ? "true" : "false";
    case Type::kInt:
      return std::to_string(int_value(node));
    case Type::kFloat:
      return float_text(float_value(node));
  }
  throw Error(ErrorKind::kInternal, "a literal without a type");
}

class Printer {
 public:
  Printer(const Expr& e, const std::vector<std::string>& names) : e_(e), names_(names) {}

  std::string text() {
    write(e_.root(), precedence::kTernary);
    return std::move(text_);
  }

 private:
  // The text of the node at `place`, in brackets if it binds less tightly than `least`.
  void write(int place, int least) {
    const Node& node = e_.node(place);
    const int own = operation(node.op).precedence;
    if (own < least) text_ += '(';
    switch (node.op) {
      case Op::kLiteral:
        text_ += literal_text(node);
        break;
      case Op::kIndex:
        text_ += name(static_cast<Index>(node.payload));
        break;
      case Op::kScore:
        text_ += 's';
        break;
      case Op::kRead:
        text_ += names_[static_cast<std::size_t>(node.operand)];
        if (node.num_args > 0) write_list(node, '[', ']');
        break;
      default:
        write_operation(node);
    }
    if (own < least) text_ += ')';
  }

  void write_operation(const Node& node) {
    const Operation& o = operation(node.op);
    switch (o.notation) {
      case Notation::kPrefix:
        text_ += o.text;
        write(node.args[0], o.precedence);
        break;
      case Notation::kInfix:
        write(node.args[0], o.precedence);
        fmt::format_to(std::back_inserter(text_), " {} ", o.text);
        write(node.args[1], o.precedence + 1);
        break;
      case Notation::kTernary:
        write(node.args[0], o.precedence + 1);
        text_ += " ? ";
        write(node.args[1], o.precedence);
        text_ += " : ";
        write(node.args[2], o.precedence);
        break;
      default:
        text_ += o.text;
        write_list(node, '(', ')');
    }
  }

  void write_list(const Node& node, char open, char close) {
    text_ += open;
    for (std::size_t n = 0; n < node.num_args; ++n) {
      if (n > 0) text_ += ", ";
      write(node.args[n], precedence::kTernary);
    }
    text_ += close;
  }

  const Expr& e_;
  const std::vector<std::string>& names_;
  std::string text_;
};

}  // namespace

std::string print(const Expr& e, const std::vector<std::string>& names) {
  Graph graph;
  if (const std::string why = graph.why_too_large(graph.import(e).back()); !why.empty()) {
    throw Error(ErrorKind::kInvalidProblem, why);
  }
  return Printer(e, names).text();
}

std::string print(const Expr& e) {
  std::vector<std::string> names;
  for (const OperandDeclaration& operand : e.operands()) names.push_back(operand.name);
  return print(e, names);
}

std::string canonical_text(const Expr& e) {
  std::vector<std::string> names;
  for (const OperandDeclaration& operand : e.operands()) {
    names.push_back(fmt::format("{}{}", name(operand.type)[0], names.size()));
  }
  return print(e, names);
}

}  // namespace attnjit::expr
