#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "attnjit/forward.hpp"
#include "expr/evaluate.hpp"
#include "expr/make.hpp"

namespace attnjit::reference {

/// Where a value of an expression is asked for.
struct Pair {
  std::int64_t batch, head, query, key;
};

/// An expression of a call, bound to its operands in host memory: the tree is evaluated as it is,
/// in fp64.
class PairExpression {
 public:
  /// `first_batch` is the `b` of batch element 0. The operands' memory must outlive this.
  PairExpression(expr::Kind kind, const Expression& text, const ForwardArgs& args,
                 std::int64_t first_batch);

  /// The numbers of a batch element that expressions call off, Lq and Lk.
  struct Lengths {
    std::int64_t offset, queries, keys;
  };

  /// Another expression of the same call and batch elements, without a slope.
  PairExpression with(expr::Expr e, const ForwardArgs& args) const;

  const expr::Expr& expression() const { return expression_; }

  /// Evaluates it at any number of pairs. Keeps memory for it: one thread at a time.
  class Values {
   public:
    explicit Values(const PairExpression& of);
    /// Tells `observer`, which must outlive this, of reads outside of an axis.
    void watch(const expr::OutsideObserver& observer) { environment_.outside = &observer; }
    expr::Value at(const Pair& pair, const Lengths& lengths, double score);
    /// The derivative by the score.
    double slope_at(const Pair& pair, const Lengths& lengths, double score);

   private:
    const expr::Environment& environment(const Pair& pair, const Lengths& lengths, double score);

    const PairExpression& of_;
    expr::Environment environment_;
    expr::Evaluator value_;
    std::optional<expr::Evaluator> slope_;
  };

 private:
  PairExpression(expr::Expr e, const ForwardArgs& args, std::int64_t first_batch, bool is_placed);

  expr::Expr expression_;
  bool is_placed_;  // i, j and off are those of the whole, for the text does not name the offsets
  std::int64_t row_offset_, key_offset_;  // of the call
  std::optional<expr::Expr> slope_;       // of a score
  std::vector<expr::OperandReader> readers_, slope_readers_;
  std::int64_t first_batch_, heads_per_kv_head_;
};

}  // namespace attnjit::reference
