#include "expr/expr.hpp"

#include <string>

#include "expr/graph.hpp"

namespace attnjit::expr {

Expr::Expr(const Node& leaf) {
  Graph graph;
  *this = graph.finish(graph.add(leaf));
}

Expr Expr::numbered() const {
  auto list = std::make_shared<List>(*list_);
  for (std::size_t n = 0; n < list->operands.size(); ++n)
    list->operands[n].name = std::to_string(n);
  return Expr(std::move(list));
}

bool same(const Expr& a, const Expr& b) {
  if (a.nodes() != b.nodes() || a.operands().size() != b.operands().size()) return false;
  for (std::size_t n = 0; n < a.operands().size(); ++n) {
    if (a.operands()[n].type != b.operands()[n].type) return false;
  }
  return true;  // a read has as many arguments as its operand has axes
}

std::size_t hash(const Expr& e) {
  std::size_t sum = 0;
  for (const Node& node : e.nodes()) sum = sum * 0x100000001b3u + hash(node);
  return sum;
}

std::vector<Uses> uses_of_nodes(const Expr& e) {
  std::vector<Uses> uses;
  uses.reserve(e.nodes().size());
  for (const Node& node : e.nodes()) {
    Uses own = 0;
    if (node.is(Op::kIndex)) own = use_of(static_cast<Index>(node.payload));
    if (node.is(Op::kScore)) own = kUsesScore;
    for (const int arg : node.arguments()) own |= uses[static_cast<std::size_t>(arg)];
    uses.push_back(own);
  }
  return uses;
}

Uses uses(const Expr& e) { return uses_of_nodes(e).back(); }

Expr part(const Expr& e, int place) {
  Graph graph;
  return graph.finish(graph.import(e)[static_cast<std::size_t>(place)]);
}

}  // namespace attnjit::expr
