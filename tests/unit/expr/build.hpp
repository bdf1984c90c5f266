#pragma once
// Trees of expressions written in C++, which tests compare with those of texts:
//   using namespace attnjit::expr::symbols;
//   const Operand rel = operand("rel", Type::kFloat, 2);
//   const Expr score = 50.f * tanh(s / 50.f) + rel(h, clamp(j - i, -128, 128) + 128);
// Functions and operators throw Error(kInvalidProblem) for types that they do not take, and for an
// expression beyond kMaxDepth or kMaxSize.
#include <string>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "expr/expr.hpp"
#include "expr/make.hpp"

namespace attnjit::expr {

/// The node at `place` of `graph`, within the limits of expressions.
inline Expr finish(const Graph& graph, int place) {
  if (const std::string why = graph.why_too_large(place); !why.empty()) {
    throw Error(ErrorKind::kInvalidProblem, why);
  }
  return graph.finish(place);
}
inline std::vector<int> import_all(Graph& graph, const std::vector<Expr>& args) {
  std::vector<int> places;
  places.reserve(args.size());
  for (const Expr& arg : args) places.push_back(graph.import(arg).back());
  return places;
}

/// A named tensor; its call operator reads an element: rel(h, j - i).
class Operand {
 public:
  explicit Operand(OperandDeclaration declaration) : declaration_(std::move(declaration)) {
    check_declarations({&declaration_, 1});
  }

  template <class... Indices>
  Expr operator()(const Indices&... indices) const {
    return read({Expr(indices)...});
  }
  const OperandDeclaration& declaration() const { return declaration_; }

 private:
  Expr read(const std::vector<Expr>& indices) const {
    Graph graph;
    const int number = graph.operand(declaration_);
    return finish(graph, make_read(graph, number, import_all(graph, indices)));
  }

  OperandDeclaration declaration_;
};

/// Throws Error(kInvalidProblem) for a name or rank that check_declarations() refuses.
inline Operand operand(std::string name, Type type, int rank) {
  return Operand({std::move(name), type, rank});
}

/// An operation over expressions.
inline Expr build(Op op, const std::vector<Expr>& args) {
  Graph graph;
  return finish(graph, make(graph, op, import_all(graph, args)));
}

/// A leaf that is an expression where one is wanted.
struct Symbol {
  Op op = Op::kScore;
  Index index = Index::kBatch;
  operator Expr() const { return Expr(op == Op::kScore ? score() : expr::index(index)); }
};

/// Names so short that they are asked for.
namespace symbols {
inline constexpr Symbol b{Op::kIndex, Index::kBatch}, h{Op::kIndex, Index::kHeadQ},
    g{Op::kIndex, Index::kHeadKv}, i{Op::kIndex, Index::kRow}, j{Op::kIndex, Index::kKey},
    off{Op::kIndex, Index::kOffset}, Lq{Op::kIndex, Index::kNumQueries},
    Lk{Op::kIndex, Index::kNumKeys}, row_offset{Op::kIndex, Index::kRowOffset},
    key_offset{Op::kIndex, Index::kKeyOffset}, s{};
}  // namespace symbols

inline Expr operator-(const Expr& a) { return build(Op::kNegate, {a}); }
inline Expr operator!(const Expr& a) { return build(Op::kNot, {a}); }
inline Expr operator+(const Expr& a, const Expr& b) { return build(Op::kAdd, {a, b}); }
inline Expr operator-(const Expr& a, const Expr& b) { return build(Op::kSubtract, {a, b}); }
inline Expr operator*(const Expr& a, const Expr& b) { return build(Op::kMultiply, {a, b}); }
inline Expr operator/(const Expr& a, const Expr& b) { return build(Op::kDivide, {a, b}); }
inline Expr operator%(const Expr& a, const Expr& b) { return build(Op::kModulo, {a, b}); }
inline Expr operator&(const Expr& a, const Expr& b) { return build(Op::kBitAnd, {a, b}); }
inline Expr operator|(const Expr& a, const Expr& b) { return build(Op::kBitOr, {a, b}); }
inline Expr operator^(const Expr& a, const Expr& b) { return build(Op::kBitXor, {a, b}); }
inline Expr operator<<(const Expr& a, const Expr& b) { return build(Op::kShiftLeft, {a, b}); }
inline Expr operator>>(const Expr& a, const Expr& b) { return build(Op::kShiftRight, {a, b}); }
inline Expr operator==(const Expr& a, const Expr& b) { return build(Op::kEqual, {a, b}); }
inline Expr operator!=(const Expr& a, const Expr& b) { return build(Op::kNotEqual, {a, b}); }
inline Expr operator<(const Expr& a, const Expr& b) { return build(Op::kLess, {a, b}); }
inline Expr operator<=(const Expr& a, const Expr& b) { return build(Op::kLessEqual, {a, b}); }
inline Expr operator>(const Expr& a, const Expr& b) { return build(Op::kGreater, {a, b}); }
inline Expr operator>=(const Expr& a, const Expr& b) { return build(Op::kGreaterEqual, {a, b}); }
inline Expr operator&&(const Expr& a, const Expr& b) { return build(Op::kAnd, {a, b}); }
inline Expr operator||(const Expr& a, const Expr& b) { return build(Op::kOr, {a, b}); }

/// a // b, the quotient of ints rounded down.
inline Expr floor_divide(const Expr& a, const Expr& b) { return build(Op::kFloorDivide, {a, b}); }
/// condition ? a : b
inline Expr select(const Expr& condition, const Expr& a, const Expr& b) {
  return build(Op::kSelect, {condition, a, b});
}
inline Expr min(const Expr& a, const Expr& b) { return build(Op::kMin, {a, b}); }
inline Expr max(const Expr& a, const Expr& b) { return build(Op::kMax, {a, b}); }
inline Expr clamp(const Expr& a, const Expr& low, const Expr& high) {
  return build(Op::kClamp, {a, low, high});
}
inline Expr abs(const Expr& a) { return build(Op::kAbs, {a}); }
inline Expr exp(const Expr& a) { return build(Op::kExp, {a}); }
inline Expr log(const Expr& a) { return build(Op::kLog, {a}); }
inline Expr tanh(const Expr& a) { return build(Op::kTanh, {a}); }
inline Expr sigmoid(const Expr& a) { return build(Op::kSigmoid, {a}); }
inline Expr sqrt(const Expr& a) { return build(Op::kSqrt, {a}); }
inline Expr floor(const Expr& a) { return build(Op::kFloor, {a}); }
inline Expr to_float(const Expr& a) { return build(Op::kToFloat, {a}); }
inline Expr to_int(const Expr& a) { return build(Op::kToInt, {a}); }

}  // namespace attnjit::expr
