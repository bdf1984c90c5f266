#pragma once
#include <unordered_map>
#include <vector>

#include "expr/expr.hpp"

namespace attnjit::expr {

std::size_t hash(const Node& node);

/// Nodes under construction, each there once: an equal node gets the place of the one before. Holds
/// several expressions beside each other, whose common parts then are one; operands are the same
/// where their names are.
class Graph {
 public:
  /// The place of a node whose arguments are places of this graph.
  int add(const Node& node);

  /// The places of the nodes of `e`. Throws as operand() does.
  std::vector<int> import(const Expr& e);

  /// The number of an operand. Throws Error(kInvalidProblem) if one of the same name differs, and
  /// where there are more than kMaxOperands.
  int operand(const OperandDeclaration& declaration);

  const Node& operator[](int place) const { return nodes_[static_cast<std::size_t>(place)]; }
  const std::vector<OperandDeclaration>& operands() const { return operands_; }
  int size() const { return static_cast<int>(nodes_.size()); }

  /// The error message for a node that exceeds kMaxDepth or kMaxSize; empty for others.
  std::string why_too_large(int place) const;

  /// The node at `place`, as an expression of its own: its nodes in the order of Expr.
  Expr finish(int place) const;

 private:
  struct Extent {
    int depth = 1;
    int size = 1;  // of the text; kMaxSize + 1 stands for all above
  };
  struct NodeHash {
    std::size_t operator()(const Node& node) const { return hash(node); }
  };

  std::vector<Node> nodes_;
  std::vector<Extent> extents_;
  std::vector<OperandDeclaration> operands_;
  std::unordered_map<Node, int, NodeHash> places_;
};

}  // namespace attnjit::expr
