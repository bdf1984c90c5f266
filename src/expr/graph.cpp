#include "expr/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "attnjit/error.hpp"

namespace attnjit::expr {
namespace {

/// Writes the part of a graph below a node in the order of Expr.
class Finish {
 public:
  Finish(const Graph& graph, std::vector<Node>& nodes, std::vector<OperandDeclaration>& operands)
      : graph_(graph),
        nodes_(nodes),
        operands_(operands),
        places_(static_cast<std::size_t>(graph.size()), -1),
        numbers_(graph.operands().size(), -1) {}

  int visit(int place) {
    int& mine = places_[static_cast<std::size_t>(place)];
    if (mine >= 0) return mine;
    Node node = graph_[place];
    // The text names an operand before those of its indices.
    if (node.is(Op::kRead)) node.operand = number_of(node.operand);
    for (int n = 0; n < node.num_args; ++n) {
      node.args[static_cast<std::size_t>(n)] = visit(node.args[static_cast<std::size_t>(n)]);
    }
    nodes_.push_back(node);
    mine = static_cast<int>(nodes_.size()) - 1;
    return mine;
  }

 private:
  std::int16_t number_of(int operand) {
    int& number = numbers_[static_cast<std::size_t>(operand)];
    if (number < 0) {
      number = static_cast<int>(operands_.size());
      operands_.push_back(graph_.operands()[static_cast<std::size_t>(operand)]);
    }
    return static_cast<std::int16_t>(number);
  }

  const Graph& graph_;
  std::vector<Node>& nodes_;
  std::vector<OperandDeclaration>& operands_;
  std::vector<int> places_;
  std::vector<int> numbers_;
};

}  // namespace

std::size_t hash(const Node& node) {
  std::size_t sum = 14695981039346656037u;  // FNV-1a over the members
  const auto mix = [&](std::int64_t number) {
    sum = (sum ^ static_cast<std::size_t>(number)) * 1099511628211u;
    sum ^= sum >> 29;
  };
  mix(static_cast<int>(node.op));
  mix(static_cast<int>(node.type));
  mix(node.operand);
  for (const int arg : node.arguments()) mix(arg);
  mix(node.payload);
  return sum;
}

int Graph::add(const Node& node) {
  const auto [found, is_new] = places_.try_emplace(node, size());
  if (!is_new) return found->second;
  Extent extent;
  for (const int arg : node.arguments()) {
    const Extent& below = extents_[static_cast<std::size_t>(arg)];
    extent.depth = std::max(extent.depth, below.depth + 1);
    extent.size = std::min(extent.size + below.size, kMaxSize + 1);
  }
  nodes_.push_back(node);
  extents_.push_back(extent);
  return found->second;
}

std::vector<int> Graph::import(const Expr& e) {
  std::vector<int> numbers, places;
  for (const OperandDeclaration& declaration : e.operands()) {
    numbers.push_back(operand(declaration));
  }
  for (Node node : e.nodes()) {
    if (node.is(Op::kRead)) {
      node.operand = static_cast<std::int16_t>(numbers[static_cast<std::size_t>(node.operand)]);
    }
    for (int n = 0; n < node.num_args; ++n) {
      auto& arg = node.args[static_cast<std::size_t>(n)];
      arg = places[static_cast<std::size_t>(arg)];
    }
    places.push_back(add(node));
  }
  return places;
}

int Graph::operand(const OperandDeclaration& declaration) {
  for (std::size_t n = 0; n < operands_.size(); ++n) {
    const OperandDeclaration& known = operands_[n];
    if (known.name != declaration.name) continue;
    if (known == declaration) return static_cast<int>(n);
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("operand {} is {} of rank {} and {} of rank {}; expected one of these",
                            known.name, name(known.type), known.rank, name(declaration.type),
                            declaration.rank));
  }
  if (operands_.size() == kMaxOperands) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("more than {} operands; expected fewer", kMaxOperands));
  }
  operands_.push_back(declaration);
  return static_cast<int>(operands_.size()) - 1;
}

std::string Graph::why_too_large(int place) const {
  const Extent& extent = extents_[static_cast<std::size_t>(place)];
  if (extent.depth > kMaxDepth) {
    return fmt::format("the expression is deeper than {} levels; expected fewer", kMaxDepth);
  }
  if (extent.size > kMaxSize) {
    return fmt::format("the expression has more than {} parts; expected fewer", kMaxSize);
  }
  return {};
}

Expr Graph::finish(int place) const {
  auto list = std::make_shared<Expr::List>();
  Finish(*this, list->nodes, list->operands).visit(place);
  return Expr(std::move(list));
}

}  // namespace attnjit::expr
