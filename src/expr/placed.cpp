#include "expr/placed.hpp"

#include "expr/rebuild.hpp"

namespace attnjit::expr {
namespace {

int place_leaf(Graph& graph, Simplifier& simplifier, const Node& leaf) {
  const int own = graph.add(leaf);
  if (!leaf.is(Op::kIndex)) return own;
  const auto plus = [&](int offset) { return simplifier.make(Op::kAdd, {own, offset}); };
  switch (static_cast<Index>(leaf.payload)) {
    case Index::kRow:
      return plus(graph.add(index(Index::kRowOffset)));
    case Index::kKey:
      return plus(graph.add(index(Index::kKeyOffset)));
    case Index::kOffset: {
      const int keys = graph.add(index(Index::kKeyOffset));
      const int rows = graph.add(index(Index::kRowOffset));
      return plus(simplifier.make(Op::kSubtract, {keys, rows}));
    }
    default:
      return own;
  }
}

}  // namespace

Expr placed(const Expr& e) { return (uses(e) & kUsesOffsets) != 0 ? e : rebuild(e, place_leaf); }

}  // namespace attnjit::expr
