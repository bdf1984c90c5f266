#pragma once
#include "attnjit/forward/max_logits_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

// The largest score of each head, out of those of its rows. One thread block computes a head; a
// maximum has no order to keep.
namespace attnjit::kernel {

template <MaxLogitsConfig kConfig>
struct MaxLogits {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in forward/max_logits_config.h");

  const MaxLogitsParams& params;

  ATTNJIT_DEVICE static uint32 shared_max(int warp) { return ptx::shared_base() + 4 * warp; }

  // The largest of every num_threads()-th row of the head, over all batch elements.
  ATTNJIT_DEVICE float thread_max(int head) const {
    const int batch_step = kConfig.num_threads() / params.seqlen_q;
    const int query_step = kConfig.num_threads() % params.seqlen_q;
    int batch = ptx::thread_index() / params.seqlen_q;
    int query = ptx::thread_index() % params.seqlen_q;
    float highest = -ptx::infinity();
#pragma unroll 4
    while (batch < params.batch) {
      const int64 plane = static_cast<int64>(batch) * params.num_heads_q + head;
      highest = fmaxf(highest,
                      ptx::load_global_written(params.row_max + plane * params.seqlen_q + query));
      batch += batch_step;
      query += query_step;
      if (query >= params.seqlen_q) {
        query -= params.seqlen_q;
        ++batch;
      }
    }
    return highest;
  }

  ATTNJIT_DEVICE void run() const {
    const int head = static_cast<int>(ptx::block_index());
    const int lane = ptx::lane_index();
    const int warp = ptx::warp_index();
    ptx::wait_for_previous_kernel();  // which writes the rows
    const float of_warp = ptx::warp_max(thread_max(head));
    if (lane == 0) ptx::store_shared_4(shared_max(warp), ptx::as_bits(of_warp));
    ptx::block_sync();  // the maxima of all warps are there
    if (warp != 0) return;
    const bool exists = lane < kConfig.num_warps;
    const float highest = ptx::warp_max(exists ? ptx::as_float(ptx::load_shared_4(shared_max(lane)))
                                               : -ptx::infinity());
    if (lane == 0) ptx::store_global(params.max_logits + head, highest);
  }
};

template <MaxLogitsConfig kConfig>
ATTNJIT_DEVICE void max_logits(const MaxLogitsParams& params) {
  MaxLogits<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
