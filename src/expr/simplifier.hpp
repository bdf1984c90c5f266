#pragma once
#include <initializer_list>
#include <optional>
#include <span>

#include "expr/make.hpp"

namespace attnjit::expr {

/// Adds operations to a graph as simplify() leaves them, given simplified arguments.
class Simplifier {
 public:
  explicit Simplifier(Graph& graph) : graph_(graph) {}

  /// The place of the value of an operation over `args`, which need not be one. Throws as
  /// expr::make() does.
  int make(Op op, std::span<const int> args);
  int make(Op op, std::initializer_list<int> args) {
    return make(op, std::span<const int>(args.begin(), args.size()));
  }

 private:
  using Found = std::optional<int>;

  Found fold(const Node& node);
  Found of_number(const Node& node);
  Found of_int(const Node& node);
  Found of_float(const Node& node);
  Found of_comparison(const Node& node);
  Found of_bool(const Node& node);
  Found of_not(int arg);
  Found of_select(const Node& node);

  template <class T>
  bool is(int place, T value) const {
    return is_literal(graph_[place], value);
  }
  template <class T>
  int constant(T value) {
    return graph_.add(literal(value));
  }
  bool is_int(int place) const { return graph_[place].type == Type::kInt; }
  bool is_constant(int place) const { return graph_[place].is(Op::kLiteral); }

  Graph& graph_;
};

}  // namespace attnjit::expr
