#pragma once
#include "reference/score_tiles.hpp"

namespace attnjit::reference {

/// Computes a block in fp64, or by the rounded arithmetic in fp32. `out` [end - first, Dv] and
/// `lse` [end - first] belong to the block.
void compute_exact(const BlockContext& context, const RowBlock& block, double* out, double* lse);
void compute_rounded(const BlockContext& context, const RowBlock& block, double* out, double* lse);

}  // namespace attnjit::reference
