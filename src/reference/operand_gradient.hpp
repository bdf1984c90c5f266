#pragma once
#include <vector>

#include "reference/backward.hpp"
#include "reference/gradient_tiles.hpp"

namespace attnjit::reference {

/// Writes the gradients of operands of the score that context.args asks for to `results`, each of
/// which has the size of its operand: sums of ds times the derivative of the score, at the element
/// that is read. Real is double for the exact arithmetic and float for the rounded.
template <typename Real>
void compute_operand_gradients(const GradientContext& context, unsigned jobs,
                               std::vector<Gradient>& results);

}  // namespace attnjit::reference
