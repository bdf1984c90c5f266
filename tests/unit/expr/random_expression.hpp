#pragma once
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "expr/make.hpp"
#include "expr/operations.hpp"
#include "unit/expr/build.hpp"

namespace attnjit::expr::test {

/// Choices of random expressions.
struct Grammar {
  int depth = 6;
  bool has_score = true;
  bool is_smooth = false;     ///< floats alone, without steps, kinks and poles
  bool has_floats = true;     ///< else ints and bools alone
  std::int64_t largest = 40;  ///< int literals lie within +-
};

/// The operands that random expressions read, of each type and many ranks.
inline std::vector<OperandDeclaration> random_operands() {
  return {{"gate", Type::kFloat, 0}, {"slope", Type::kFloat, 1}, {"rel", Type::kFloat, 2},
          {"bias", Type::kFloat, 3}, {"top", Type::kInt, 0},     {"doc", Type::kInt, 1},
          {"table", Type::kInt, 2},  {"pad", Type::kBool, 2},    {"flag", Type::kBool, 0},
          {"whole", Type::kFloat, 4}};
}

/// Draws expressions from the grammar: every operation, literals of all kinds, operands of every
/// type read by arbitrary indices. The same seed gives the same ones.
class RandomExpressions {
 public:
  explicit RandomExpressions(std::uint64_t seed, Grammar grammar = {})
      : random_(seed), grammar_(grammar), operands_(random_operands()) {}

  Expr of(Kind kind) {
    graph_ = Graph();
    uses_score_ = kind == Kind::kScore && grammar_.has_score;
    const int root =
        value(kind == Kind::kScore ? Type::kFloat : Type::kBool, below(grammar_.depth) + 1);
    return graph_.finish(make_root(graph_, kind, root));
  }
  Expr score() { return of(Kind::kScore); }
  Expr keep() { return of(Kind::kKeep); }

  /// A number 0 <= n < `count`.
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  bool once_in(int times) { return below(times) == 0; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  int add(Op op, std::initializer_list<int> args) { return make(graph_, op, args); }
  Op one_of(std::initializer_list<Op> ops) {
    return ops.begin()[below(static_cast<int>(ops.size()))];
  }
  int number(int depth) {
    return value(!grammar_.has_floats || once_in(3) ? Type::kInt : Type::kFloat, depth);
  }

  int value(Type type, int depth) {
    if (depth <= 1) return leaf(type);
    if (!grammar_.is_smooth && once_in(8)) {
      return add(Op::kSelect,
                 {value(Type::kBool, depth - 1), value(type, depth - 1), value(type, depth - 1)});
    }
    if (once_in(6)) return read(type, depth);
    switch (type) {
      case Type::kBool:
        return truth(depth - 1);
      case Type::kInt:
        return integer(depth - 1);
      default:
        return grammar_.is_smooth ? smooth(depth - 1) : real(depth - 1);
    }
  }

  int truth(int depth) {
    switch (below(6)) {
      case 0:
        return add(Op::kNot, {value(Type::kBool, depth)});
      case 1:
      case 2:
        return add(one_of({Op::kAnd, Op::kOr}),
                   {value(Type::kBool, depth), value(Type::kBool, depth)});
      case 3:
        return add(one_of({Op::kEqual, Op::kNotEqual}),
                   {value(Type::kBool, depth), value(Type::kBool, depth)});
      default:
        return add(one_of({Op::kEqual, Op::kNotEqual, Op::kLess, Op::kLessEqual, Op::kGreater,
                           Op::kGreaterEqual}),
                   {number(depth), number(depth)});
    }
  }

  int integer(int depth) {
    const auto some = [&] { return value(Type::kInt, depth); };
    switch (below(8)) {
      case 0:
        return add(one_of({Op::kNegate, Op::kAbs}), {some()});
      case 1:
        return add(Op::kClamp, {some(), some(), some()});
      case 2:
        return add(Op::kToInt,
                   {value(!grammar_.has_floats || once_in(2) ? Type::kBool : Type::kFloat, depth)});
      case 3:
        return add(one_of({Op::kMin, Op::kMax, Op::kFloorDivide, Op::kModulo}), {some(), some()});
      case 4:
        return add(one_of({Op::kBitAnd, Op::kBitOr, Op::kBitXor, Op::kShiftLeft, Op::kShiftRight}),
                   {some(), some()});
      default:
        return add(one_of({Op::kAdd, Op::kSubtract, Op::kMultiply}), {some(), some()});
    }
  }

  int real(int depth) {
    switch (below(7)) {
      case 0:
        return add(one_of({Op::kNegate, Op::kAbs, Op::kFloor, Op::kSqrt}),
                   {value(Type::kFloat, depth)});
      case 1:
        return add(one_of({Op::kExp, Op::kLog, Op::kTanh, Op::kSigmoid}), {number(depth)});
      case 2:
        return add(Op::kClamp, {value(Type::kFloat, depth), number(depth), number(depth)});
      case 3:
        return add(one_of({Op::kMin, Op::kMax}), {value(Type::kFloat, depth), number(depth)});
      case 4:
        return add(Op::kToFloat, {value(once_in(2) ? Type::kBool : Type::kInt, depth)});
      default:
        return add(one_of({Op::kAdd, Op::kSubtract, Op::kMultiply, Op::kDivide}),
                   {value(Type::kFloat, depth), number(depth)});
    }
  }

  int smooth(int depth) {
    const auto some = [&] { return value(Type::kFloat, depth); };
    switch (below(6)) {
      case 0:
        return add(one_of({Op::kTanh, Op::kSigmoid, Op::kNegate}), {some()});
      case 1:
        return add(Op::kExp, {add(Op::kTanh, {some()})});
      case 2:  // positive arguments
        return add(one_of({Op::kLog, Op::kSqrt}),
                   {add(Op::kAdd, {add(Op::kExp, {some()}), graph_.add(literal(0.5f))})});
      case 3:
        return add(
            Op::kDivide,
            {some(), add(Op::kAdd, {add(Op::kMultiply, {some(), add(Op::kSigmoid, {some()})}),
                                    graph_.add(literal(9.0f))})});
      default:
        return add(one_of({Op::kAdd, Op::kSubtract, Op::kMultiply}), {some(), some()});
    }
  }

  int read(Type type, int depth) {
    for (;;) {
      const OperandDeclaration& operand =
          operands_[static_cast<std::size_t>(below(static_cast<int>(operands_.size())))];
      if (operand.type != type) continue;
      std::vector<int> indices;
      for (int n = 0; n < operand.rank; ++n) {
        indices.push_back(once_in(2) ? leaf(Type::kInt)
                                     : value(Type::kInt, grammar_.is_smooth ? 1 : depth - 1));
      }
      return make_read(graph_, graph_.operand(operand), indices);
    }
  }

  int leaf(Type type) {
    if (once_in(6)) return read(type, 1);
    switch (type) {
      case Type::kBool:
        return once_in(4) ? graph_.add(literal(once_in(2)))
                          : add(one_of({Op::kLess, Op::kLessEqual, Op::kEqual}),
                                {leaf(Type::kInt), leaf(Type::kInt)});
      case Type::kInt:
        if (once_in(3)) return graph_.add(literal(int_literal()));
        return graph_.add(index(static_cast<Index>(below(kNumIndices))));
      default:
        if (uses_score_ && once_in(2)) return graph_.add(score_leaf());
        return graph_.add(literal(float_literal()));
    }
  }

  static Node score_leaf() { return expr::score(); }

  std::int64_t int_literal() {
    if (grammar_.largest > 1000 && once_in(8)) {
      constexpr std::int64_t kEnds[] = {std::numeric_limits<std::int64_t>::min(),
                                        std::numeric_limits<std::int64_t>::max(), (1 << 24) + 1,
                                        -(std::int64_t{1} << 31)};
      return kEnds[below(4)];
    }
    return once_in(2) ? between(-2, 2) : between(-grammar_.largest, grammar_.largest);
  }

  float float_literal() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kNumbers[] = {0.f,  -0.f, 1.f,    -1.f,  0.5f,      2.f,
                                  0.1f, 50.f, 1e-38f, 3e38f, kInfinity, -kInfinity};
    if (grammar_.is_smooth) return static_cast<float>(between(-300, 300)) / 100;
    return once_in(3) ? static_cast<float>(between(-4000, 4000)) / 64 : kNumbers[below(12)];
  }

  std::mt19937_64 random_;
  Grammar grammar_;
  std::vector<OperandDeclaration> operands_;
  Graph graph_;
  bool uses_score_ = true;
};

}  // namespace attnjit::expr::test
