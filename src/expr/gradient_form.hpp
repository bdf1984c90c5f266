#pragma once
#include <span>

#include "expr/derivative.hpp"

namespace attnjit::expr {

/// The way in which the gradient of an operand is summed up, from the shape of the indices that it
/// is read by.
enum class GradientForm {
  kPlanes,      ///< distinct axes out of b, h or g, i and j: as a bias's
  kDiagonals,   ///< indices that b, h, g and j - i fix: sums along diagonals
  kIndexTable,  ///< beside h or g one index table[i, j]: the gradient of one plane, then a scatter
  kBlockSums,   ///< no i and no j: sums over blocks, then one reduction
  kAtomics,     ///< all else: atomic additions
};

/// "planes", "diagonals", "index table", "block sums" or "atomics".
const char* name(GradientForm form);

/// The form of one read of an operand.
GradientForm gradient_form(const Expr& read);

/// The form of an operand from all its sites: theirs if they have one, where sums of several
/// sites are no more than such sums (diagonals, block sums); else atomics.
GradientForm gradient_form(std::span<const ReadSite> sites_of_operand);

}  // namespace attnjit::expr
