#pragma once
#include <cstdint>

#include "attnjit/forward.hpp"
#include "reference/forward.hpp"
#include "reference/score_rule.hpp"

namespace attnjit::reference {

/// Selected rows first <= position < end of one (batch, query head).
struct RowBlock {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t first;
  std::int64_t end;
};

/// What all blocks of one forward share.
struct BlockContext {
  const ForwardArgs& args;
  const ScoreRule& rule;
  const Rows& rows;
};

/// Computes a block in fp64, or by the rounded arithmetic in fp32. `out` [end - first, Dv] and
/// `lse` [end - first] belong to the block.
void compute_exact(const BlockContext& context, const RowBlock& block, double* out, double* lse);
void compute_rounded(const BlockContext& context, const RowBlock& block, double* out, double* lse);

}  // namespace attnjit::reference
