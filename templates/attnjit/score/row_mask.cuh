#pragma once
#include "attnjit/forward_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/operand_params.h"

namespace attnjit::kernel {

// A boolean mask that is the same for all keys of a row: dropped rows are dead, and a block
// without a kept row reads no keys at all.
template <ForwardConfig kConfig>
struct RowMask : Feature {
  const OperandParams& params;
  const uint8* plane;

  ATTNJIT_DEVICE explicit RowMask(const OperandParams& p) : params(p), plane(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    plane = static_cast<const uint8*>(params.data) + block.batch * params.batch_stride +
            block.head / params.heads_per_plane * params.head_stride;
  }
  ATTNJIT_DEVICE bool keeps(int query) const {
    return ptx::load_global(plane + query * params.query_stride) != 0;
  }
  ATTNJIT_DEVICE void narrow(const Block& block, KeyRange& keys) {
    bool any = false;
    for (int query = block.first_query + ptx::thread_index(); query < block.end_query;
         query += kConfig.num_threads()) {
      any |= keeps(query);
    }
    if (!ptx::block_any(any)) keys.end = keys.begin;
  }
  ATTNJIT_DEVICE void finish(const Block& block, int query, RowState& row) {
    if (query < block.seqlen_q && !keeps(query)) row.sum = 0.0f;
  }
};

}  // namespace attnjit::kernel
