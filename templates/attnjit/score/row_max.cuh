#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/store_if.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/row_max_params.h"

namespace attnjit::kernel {

// Writes the largest score of each row. It changes no score: the main loop keeps the maxima, which
// belong to its rows.
struct RowMax : Feature {
  static constexpr bool kKeepsMaxima = true;
  const RowMaxParams& params;

  ATTNJIT_DEVICE explicit RowMax(const RowMaxParams& p) : params(p) {}

  // Writes the largest score of a row to `slot`, by one lane of its quad. row.max is the maximum
  // over its keys, before `features` change the row as a whole.
  template <class Features>
  ATTNJIT_DEVICE void write_max(Features& features, const Block& block, const RowOwner& owner,
                                RowState row, int64 slot) const {
    features.finish(block, owner, row);
    ptx::store_global_if((ptx::lane_index() & 3) == 0 && owner.query < block.seqlen_q,
                         params.target + slot, row.sum == 0.0f ? -ptx::infinity() : row.max);
  }
};

}  // namespace attnjit::kernel
