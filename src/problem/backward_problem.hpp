#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "attnjit/backward.hpp"
#include "expr/gradient_form.hpp"
#include "problem/problem.hpp"

namespace attnjit::problem {

/// The gradient of a bias in canonical form. Axes that it reduces, or whose problem size is 1, have
/// stride 0.
struct BiasGradient {
  Extent extent = Extent::kAbsent;  ///< axes of the (query, key) plane that it keeps
  bool scalar = false;              ///< with kPerQuery: it keeps not even the queries
  DType dtype = DType::kFloat32;
  std::int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;  // elements
  std::int32_t batches = 1;            ///< distinct planes over the batch: 1, or a divisor of it
  BatchCycle cycle;                    ///< of these planes
  std::int32_t heads = 1;              ///< distinct planes per batch element: 1, Hkv or Hq
  std::int32_t queries = 1, keys = 1;  ///< sizes of the last two axes
  bool vectorized = false;  ///< rows are contiguous, 16-byte aligned and so are all strides

  bool operator==(const BiasGradient&) const = default;
};

/// Operands with gradients of a call at most, and places where its score reads them.
inline constexpr std::size_t kMaxOperandGradients = 4, kMaxGradientSites = 8;

/// The operands of expressions that have gradients: a set of numbers, with a text so that records
/// name it where it is not empty.
class GradientOperands {
 public:
  GradientOperands() = default;
  /// `of_score` by their numbers there; `others`: such that the score does not depend on.
  GradientOperands(expr::OperandSet of_score, bool others);
  /// Reads the output of text(). Throws Error(kInvalidProblem).
  static GradientOperands parse(std::string_view text);

  expr::OperandSet of_score() const { return bits_ & ~kOthers; }
  bool any() const { return bits_ != 0; }
  /// "0,3", and "other" for others; empty without any.
  std::string_view text() const { return text_.data(); }

  explicit operator std::uint64_t() const { return bits_; }
  auto operator<=>(const GradientOperands&) const = default;

 private:
  static constexpr expr::OperandSet kOthers = expr::OperandSet{1} << expr::kMaxOperands;

  expr::OperandSet bits_ = 0;
  std::array<char, 24> text_{};
};

/// The gradient of an operand of the score.
struct OperandGradient {
  std::int32_t number = -1;  ///< of the operand in the score; -1: nothing depends on it
  ExpressionOperand tensor;  ///< of the gradient, in the place of the operand

  bool operator==(const OperandGradient&) const = default;
};

/// A validated backward problem: everything but the addresses.
struct BackwardProblem {
  Problem forward;  ///< the call whose gradients are wanted; `aligned` speaks of its tensors alone
  RowStrides dout, dq, dk, dv;
  /// The caller's dk and dv where keys are selected; those above are then of the selected keys, as
  /// k and v.
  RowStrides caller_dk, caller_dv;
  bool aligned = false;  ///< all of the tensors: addresses and strides are multiples of 16 bytes
  BiasGradient dbias;
  bool has_dlse = false;
  bool has_dsink = false;
  std::int64_t dsink_stride = 0;  // elements; 0 where there is one head
  std::array<OperandGradient, kMaxOperandGradients> operand_gradients;
  std::int32_t num_operand_gradients = 0;
  bool deterministic = false;

  std::span<const OperandGradient> gradients_of_operands() const {
    return std::span(operand_gradients).first(static_cast<std::size_t>(num_operand_gradients));
  }

  /// Whether the bias's gradient adds up planes: batch elements or heads.
  bool dbias_reduces_planes() const {
    return dbias.batches != forward.batch || dbias.heads != forward.num_heads_q;
  }
  /// Whether dbias has queries and keys and adds up so few planes of them, none of packed
  /// sequences, that these may be kept apart.
  bool dbias_reduces_few() const;
  /// Whether no output has an element. A dbias or dsink that sums over nothing is 0 and has some.
  bool empty() const {
    return (forward.batch == 0 || (forward.seqlen_q == 0 && forward.num_keys() == 0)) &&
           dbias.extent == Extent::kAbsent && !has_dsink && num_operand_gradients == 0;
  }
  bool operator==(const BackwardProblem&) const = default;
};

/// As make_problem(const ForwardArgs&).
BackwardProblem make_problem(const BackwardArgs& args);

/// The properties of a backward problem that its kernels are specialised for.
struct BackwardFamily {
  Family scores;  ///< `aligned` speaks of all tensors
  Extent dbias = Extent::kAbsent;
  DType dbias_dtype = DType::kFloat32;
  bool dbias_vectorized = false;
  bool dbias_reduces_planes = false;
  bool dbias_reduces_few = false;   ///< with kPerPair: those that come to one are few
  bool dbias_groups_batch = false;  ///< batch elements share planes of dbias, which has several
  bool dbias_scalar = false;
  bool dsink = false;
  GradientOperands gradient_operands;
  bool deterministic = false;

  auto operator<=>(const BackwardFamily&) const = default;
};

constexpr auto fields(const BackwardFamily*) {
  using F = BackwardFamily;
  return base::fields_of<F>(base::Field{"scores", &F::scores}, base::Field{"dbias", &F::dbias},
                            base::Field{"dbias_dtype", &F::dbias_dtype},
                            base::Field{"dbias_vectorized", &F::dbias_vectorized},
                            base::Field{"dbias_reduces_planes", &F::dbias_reduces_planes},
                            base::Field{"dbias_reduces_few", &F::dbias_reduces_few},
                            base::Field{"dbias_groups_batch", &F::dbias_groups_batch},
                            base::Field{"dbias_scalar", &F::dbias_scalar},
                            base::Field{"dsink", &F::dsink},
                            base::Field{"gradient_operands", &F::gradient_operands},
                            base::Field{"deterministic", &F::deterministic});
}

BackwardFamily family(const BackwardProblem& problem);

/// The axes that dbias keeps, as a pattern: "bhqk", "1hqk"; "none" if it is not wanted.
std::string dbias_pattern(const BackwardProblem& problem);

/// One line that says everything about the problem except its strides.
std::string describe(const BackwardProblem& problem);
std::string describe(const BackwardFamily& family);

}  // namespace attnjit::problem
