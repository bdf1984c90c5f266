#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <vector>

#include "expr/node.hpp"

namespace attnjit::expr {

/// Levels of an expression at most: functions over it recurse that deep.
inline constexpr int kMaxDepth = 100;
/// Nodes of an expression at most, a shared one counted where it is used: the text has as many.
inline constexpr int kMaxSize = 2048;
/// Operands of an expression at most: each is a few parameters of a kernel.
inline constexpr int kMaxOperands = 16;

/// An expression: a value that is shared, never changed. Its nodes lie in one order, arguments
/// before what uses them and the root last, with equal subexpressions as one node. Operands are
/// numbered in the order in which the text names them.
class Expr {
 public:
  template <std::same_as<bool> T>
  Expr(T value) : Expr(literal(value)) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Expr(T value)
      : Expr(literal(static_cast<std::int64_t>(value))) {}
  /// A double is rounded to fp32, as a literal of a text is.
  template <std::floating_point T>
  Expr(T value) : Expr(literal(static_cast<float>(value))) {}
  /// A leaf: a literal, an index or s.
  Expr(const Node& leaf);

  const std::vector<Node>& nodes() const { return list_->nodes; }
  const std::vector<OperandDeclaration>& operands() const { return list_->operands; }
  int root() const { return static_cast<int>(nodes().size()) - 1; }
  const Node& node(int place) const { return nodes()[static_cast<std::size_t>(place)]; }
  const Node& top() const { return nodes().back(); }
  Type type() const { return top().type; }

  /// The same whose operands have their numbers for names, "0", "1", ..., which no text has: an
  /// interned expression may have those of another call.
  Expr numbered() const;

 private:
  friend class Graph;
  struct List {
    std::vector<Node> nodes;
    std::vector<OperandDeclaration> operands;
  };
  explicit Expr(std::shared_ptr<const List> list) : list_(std::move(list)) {}

  std::shared_ptr<const List> list_;
};

/// Whether two expressions are the same tree over operands of the same types. Names of operands do
/// not matter, for they make no kernel. (a == b is an expression.)
bool same(const Expr& a, const Expr& b);

/// A number that equal expressions, in the sense of same(), share.
std::size_t hash(const Expr& e);

/// The indices that a value depends on: a bit per Index, 1 << Index, and kUsesScore.
using Uses = std::uint32_t;
inline constexpr Uses kUsesScore = 1u << kNumIndices;
inline constexpr Uses use_of(Index which) { return 1u << static_cast<int>(which); }

inline constexpr Uses kUsesPair = use_of(Index::kRow) | use_of(Index::kKey);
inline constexpr Uses kUsesOffsets = use_of(Index::kRowOffset) | use_of(Index::kKeyOffset);

/// The Uses of each node of `e`, the indices of its reads included.
std::vector<Uses> uses_of_nodes(const Expr& e);
Uses uses(const Expr& e);

/// The part of `e` below one of its nodes.
Expr part(const Expr& e, int place);

}  // namespace attnjit::expr
