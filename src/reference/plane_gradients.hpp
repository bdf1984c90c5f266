#pragma once
#include "reference/backward.hpp"
#include "reference/gradient_tiles.hpp"

namespace attnjit::reference {

/// Writes dq of the plane's query heads, and its dk and dv, to `result`, which has their sizes.
/// Real is double for the exact arithmetic and float for the rounded one.
template <typename Real>
void compute_plane(const GradientContext& context, const Plane& plane, BackwardResult& result);

}  // namespace attnjit::reference
