#pragma once
#include <cstdint>
#include <vector>

#include "expr/derivative.hpp"

namespace attnjit::expr {

/// The way in which the gradient of an operand is summed up, from what the indices depend on that
/// it is read by.
enum class GradientForm {
  kBlockSums,   ///< neither i nor j: sums of whole planes
  kRows,        ///< i: sums of rows
  kKeys,        ///< j: sums of keys
  kDiagonals,   ///< j - i: sums along diagonals
  kPairs,       ///< i and j are two of its axes, b, h or g may be others: as a bias's
  kIndexTable,  ///< beside h or g one index table[i, j]: sums of pairs of one plane, then a scatter
  kAtomics,     ///< all else: atomic additions
};

/// "block sums", "rows", "keys", "diagonals", "pairs", "index table" or "atomics".
const char* name(GradientForm form);

/// The form of one read of an operand.
GradientForm gradient_form(const Expr& read);

/// A place where a score reads an operand whose gradient is wanted.
struct GradientSite {
  int operand;  ///< its number in the score
  Expr read;    ///< the read alone
  Expr factor;  ///< the derivative of the score by it
  GradientForm form;
  // What the index depends on besides, and sums are kept apart by.
  bool per_batch;    ///< b, or lengths that batch elements may have of their own
  bool per_head;     ///< h
  bool per_kv_head;  ///< g, and not h
};

/// A bit per operand of an expression, 1 << number.
using OperandSet = std::uint32_t;

/// The sites of `operands` in a score: of one after another in their order, each in that of the
/// text. An operand that the score does not depend on has none. `packed`: sequences are, whose
/// lengths are not compared with the axes of pairs.
std::vector<GradientSite> gradient_sites(const Expr& score, OperandSet operands, bool packed);

/// The float operands of an expression.
OperandSet float_operands(const Expr& e);

}  // namespace attnjit::expr
