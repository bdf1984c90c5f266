#pragma once
#include <initializer_list>
#include <span>

#include "expr/graph.hpp"

namespace attnjit::expr {

/// The purpose of an expression.
enum class Kind {
  kScore,  ///< a float, which may use s
  kKeep,   ///< a bool, which may not
};

/// Adds an operation to `graph`. Where ints and floats are mixed the ints become floats; a bool
/// becomes nothing by itself. The negative of a literal, float() of an int literal that fp32 holds,
/// float() of a float and int() of an int are no nodes, however they are written. Throws
/// Error(kInvalidProblem) that names the operation, the argument and its type.
int make(Graph& graph, Op op, std::span<const int> args);
inline int make(Graph& graph, Op op, std::initializer_list<int> args) {
  return make(graph, op, std::span<const int>(args.begin(), args.size()));
}

/// Adds a read of an operand that `graph` numbers. Throws Error(kInvalidProblem) unless there are
/// as many indices as axes, all of them ints.
int make_read(Graph& graph, int operand, std::span<const int> indices);

/// The float of a score or the bool of a keep; an int becomes a float. Throws
/// Error(kInvalidProblem) for another type, and if a keep uses s.
int make_root(Graph& graph, Kind kind, int value);
Expr as_kind(Kind kind, const Expr& e);

/// Throws Error(kInvalidProblem) unless the names are words of at most 64 letters, digits and
/// underscores, no words of the grammar, and each there once, and ranks 0 to kMaxRank.
void check_declarations(std::span<const OperandDeclaration> operands);

}  // namespace attnjit::expr
