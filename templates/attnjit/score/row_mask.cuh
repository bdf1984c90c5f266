#pragma once
#include "attnjit/score/feature.cuh"
#include "attnjit/score/load_row_mask.cuh"
#include "attnjit/score/score_shape.h"

namespace attnjit::kernel {

// A boolean mask that is the same for all keys of a row: dropped rows are dead, and a block
// without a kept row reads no keys at all.
template <ScoreShape kShape>
struct RowMask : Feature {
  const OperandParams& params;

  ATTNJIT_DEVICE explicit RowMask(const OperandParams& p) : params(p) {}

  ATTNJIT_DEVICE bool keeps(const Block& block, const RowOwner& owner) const {
    return keeps_row(params, block.batch, owner.head, owner.query);
  }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team team, const Block& block, KeyRange& keys) {
    bool any = false;
    for (int row = block.first_row + team.index(); row < block.end_row; row += Team::kSize) {
      any |= keeps(block, owner_of<kShape.pack_gqa_heads>(block, row));
    }
    if (!team.any(any)) keys.end = keys.begin;
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    if (owner.query < block.query_len && !keeps(block, owner)) row.sum = 0.0f;
  }
};

}  // namespace attnjit::kernel
