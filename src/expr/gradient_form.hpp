#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "expr/derivative.hpp"

namespace attnjit::expr {

/// The way in which the gradient of an operand is summed up, from what the indices depend on that
/// it is read by.
enum class GradientForm {
  kBlockSums,   ///< neither i nor j: sums of whole planes
  kScale,       ///< the same, where it is a factor of s and nothing else (scale_of())
  kRows,        ///< i: sums of rows
  kKeys,        ///< j: sums of keys
  kDiagonals,   ///< j - i: sums along diagonals
  kPairs,       ///< i and j are two of its axes, b, h or g may be others: as a bias's
  kIndexTable,  ///< beside h or g one index table[i, j]: sums of pairs of one plane, then a scatter
  kAtomics,     ///< all else: atomic additions
};

/// "block sums", "scale", "rows", "keys", "diagonals", "pairs", "index table" or "atomics".
const char* name(GradientForm form);

/// The form of one read of an operand, by its index alone: never kScale.
GradientForm gradient_form(const Expr& read);

/// A place where a score reads an operand whose gradient is wanted.
struct GradientSite {
  int operand;  ///< its number in the score
  Expr read;    ///< the read alone
  Expr factor;  ///< the derivative of the score by it
  GradientForm form;
  // Dependences of the index by which sums are kept apart.
  bool per_batch;    ///< on b, or on lengths that batch elements have of their own
  bool per_head;     ///< h
  bool per_kv_head;  ///< g, and not h
};

/// A bit per operand of an expression, 1 << number.
using OperandSet = std::uint32_t;

/// The numbers of rows and keys of a batch element.
enum class Lengths {
  kShared,  ///< all have those of the tensors
  kOwn,     ///< each has its own
  kPacked,  ///< the same, and no axis of an operand is as long as all of them
};

/// A score that is `slope` s and terms without s, whose derivative by a read is `factor` s. Neither
/// uses s, i or j.
struct ScoreScale {
  Expr slope, factor;
};

/// The scale that a read is of `score`, whose derivative by it is `by_read`; nothing where they
/// have another shape. The gradient by the read is the sum over rows of q dq times factor / slope,
/// unless the slope is 0.
std::optional<ScoreScale> scale_of(const Expr& score, const Expr& by_read);

/// The sites of `operands` in a score: of one after another in their order, each in that of the
/// text. An operand that the score does not depend on has none. Pairs of packed sequences are
/// added up by atomics.
std::vector<GradientSite> gradient_sites(const Expr& score, OperandSet operands, Lengths lengths);

/// The float operands of an expression.
OperandSet float_operands(const Expr& e);

}  // namespace attnjit::expr
