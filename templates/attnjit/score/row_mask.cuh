#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/operand_params.h"
#include "attnjit/score/score_shape.h"

namespace attnjit::kernel {

// A boolean mask that is the same for all keys of a row: dropped rows are dead, and a block
// without a kept row reads no keys at all.
template <ScoreShape kShape>
struct RowMask : Feature {
  const OperandParams& params;

  ATTNJIT_DEVICE explicit RowMask(const OperandParams& p) : params(p) {}

  ATTNJIT_DEVICE bool keeps(const Block& block, const RowOwner& owner) const {
    return ptx::load_global(static_cast<const uint8*>(params.data) +
                            block.batch * params.batch_stride +
                            owner.head / params.heads_per_plane * params.head_stride +
                            owner.query * params.query_stride) != 0;
  }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team team, const Block& block, KeyRange& keys) {
    bool any = false;
    for (int row = block.first_row + team.index(); row < block.end_row; row += Team::kSize) {
      any |= keeps(block, owner_of<kShape.packed_heads>(block, row));
    }
    if (!team.any(any)) keys.end = keys.begin;
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    if (owner.query < block.query_len && !keeps(block, owner)) row.sum = 0.0f;
  }
};

}  // namespace attnjit::kernel
