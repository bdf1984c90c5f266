#pragma once
#include "reference/backward.hpp"
#include "reference/gradient_tiles.hpp"

namespace attnjit::reference {

/// Writes the rows of dbias to which selected planes alone add to `result`, which has its size.
/// context.args.dbias is there. Real is double for the exact arithmetic and float for the rounded.
template <typename Real>
void compute_dbias(const GradientContext& context, const Planes& planes, unsigned jobs,
                   Gradient& result);

}  // namespace attnjit::reference
