#pragma once
#include <vector>

#include "expr/simplifier.hpp"

namespace attnjit::expr {

/// `e` from its leaves up, simplified. leaf(graph, simplifier, node) is the place of the value that
/// stands for a leaf.
template <class Leaf>
Expr rebuild(const Expr& e, Leaf leaf) {
  Graph graph;
  Simplifier simplifier(graph);
  std::vector<int> places;
  places.reserve(e.nodes().size());
  for (const Node& node : e.nodes()) {
    std::vector<int> args;
    for (const int arg : node.arguments()) args.push_back(places[static_cast<std::size_t>(arg)]);
    if (node.is(Op::kRead)) {
      const int operand = graph.operand(e.operands()[static_cast<std::size_t>(node.operand)]);
      places.push_back(make_read(graph, operand, args));
    } else {
      places.push_back(args.empty() ? leaf(graph, simplifier, node)
                                    : simplifier.make(node.op, args));
    }
  }
  return graph.finish(places.back());
}

}  // namespace attnjit::expr
