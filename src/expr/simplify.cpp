#include "expr/simplify.hpp"

#include "expr/rebuild.hpp"

namespace attnjit::expr {

Expr simplify(const Expr& e) {
  return rebuild(e, [](Graph& graph, Simplifier&, const Node& leaf) { return graph.add(leaf); });
}

}  // namespace attnjit::expr
