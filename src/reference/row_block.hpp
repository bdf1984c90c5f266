#pragma once
#include "reference/score_tiles.hpp"

namespace attnjit::reference {

/// The results of a block of rows.
struct BlockResult {
  double* out;           ///< [end - first, Dv]
  double* lse;           ///< [end - first]
  double* row_max;       ///< [end - first]
  double* score_errors;  ///< [end - first]
  std::uint8_t* dead;    ///< [end - first]
};

/// Computes a block in fp64, or by the rounded arithmetic in fp32.
void compute_exact(const BlockContext& context, const RowBlock& block, const BlockResult& result);
void compute_rounded(const BlockContext& context, const RowBlock& block, const BlockResult& result);

}  // namespace attnjit::reference
