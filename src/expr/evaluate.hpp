#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "expr/arithmetic.hpp"
#include "expr/expr.hpp"

namespace attnjit::expr {

/// One number per Index.
template <class T>
struct PerIndex {
  std::array<T, kNumIndices> of{};
  T& operator[](Index which) { return of[static_cast<std::size_t>(which)]; }
  const T& operator[](Index which) const { return of[static_cast<std::size_t>(which)]; }
};

using Places = std::array<std::int64_t, kMaxRank>;

/// An operand that is read: its sizes, and its elements.
struct OperandReader {
  Places shape{};
  /// The element at a place inside `shape`; of the type that was declared.
  std::function<Value(const Places&)> read;
};

/// Told of each index outside of its axis, which is not of size 1: the operand's number, the axis
/// and the index.
using OutsideObserver = std::function<void(int operand, std::size_t axis, std::int64_t index)>;

/// The values of the leaves of an expression. `operands` are those of the expression, in its
/// order.
struct Environment {
  PerIndex<std::int64_t> indices;
  double score = 0;
  std::span<const OperandReader> operands;
  const OutsideObserver* outside = nullptr;  ///< optional
};

/// Computes the value of one expression, with floats in fp64, at any number of points. Reads
/// outside of an axis go to its nearest end; a read of an operand without elements is 0. Of `? :`,
/// && and || only the sides that count are computed. Keeps memory for it: one thread at a time.
class Evaluator {
 public:
  explicit Evaluator(Expr e);

  Value operator()(const Environment& environment);

 private:
  Value value(int place);
  Value compute(const Node& node);
  Value read(const Node& node);

  Expr e_;
  const Environment* environment_ = nullptr;
  std::vector<Value> values_;
  std::vector<std::uint64_t> times_;  // of the points that values belong to
  std::uint64_t time_ = 0;
};

Value evaluate(const Expr& e, const Environment& environment);

}  // namespace attnjit::expr
