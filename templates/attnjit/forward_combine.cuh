#pragma once
#include "attnjit/forward_combine_config.h"
#include "attnjit/part_weights.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

// Adds up the splits of a forward whose keys were shared out over thread blocks (part_weights.cuh).
// One thread block computes one row. Each warp sums every num_warps-th split, a lane four
// neighbouring columns at a time; then the warps' sums are added through shared memory.
namespace attnjit::kernel {

template <ForwardCombineConfig kConfig>
struct ForwardCombine {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward_combine_config.h");
  static constexpr int kColumns = kConfig.padded_head_dim_v();
  static constexpr int kPieces = (kColumns + 127) / 128;  // of four columns that a lane holds

  const ForwardCombineParams& params;

  // The shared element of a warp's sum.
  ATTNJIT_DEVICE static uint32 shared_sum(int warp, int column) {
    return ptx::shared_base() + (warp * kColumns + column) * 4;
  }

  // The largest of a number per split. Warps call it whole.
  ATTNJIT_DEVICE float largest(const float* numbers) const {
    float highest = -ptx::infinity();
    for (int s = ptx::lane_index(); s < params.num_splits; s += 32) {
      highest = fmaxf(highest, ptx::load_global_written(numbers + s));
    }
    return ptx::warp_max(highest);
  }

  ATTNJIT_DEVICE void run() const {
    const int64 row = ptx::block_index();
    const int lane = ptx::lane_index();
    const int warp = ptx::warp_index();
    ptx::wait_for_previous_kernel();  // which writes the splits
    const float* const lses = params.partial_lse + row * params.num_splits;

    // Every warp weighs all splits: cheaper than to wait for one that does.
    const PartWeights weights(largest(lses));
    float total = 0.0f;
    for (int s = lane; s < params.num_splits; s += 32) {
      total += weights.weight(ptx::load_global_written(lses + s));
    }
    total = ptx::warp_sum(total);

    float sum[kPieces][4] = {};
    const float* partial = params.partial_out + row * params.num_splits * kColumns;
#pragma unroll 4
    for (int s = warp; s < params.num_splits; s += kConfig.num_warps) {
      const float w = weights.weight(ptx::load_global_written(lses + s));
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        const int column = 128 * p + 4 * lane;
        if (column >= kColumns) continue;
        const ptx::Vector16 v = ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(
            partial + static_cast<int64>(s) * kColumns + column));
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[p][i] += w * ptx::as_float(v.word[i]);
      }
    }
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int column = 128 * p + 4 * lane;
      if (column >= kColumns) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        ptx::store_shared_4(shared_sum(warp, column + i), ptx::as_bits(sum[p][i]));
      }
    }
    ptx::block_sync();  // the sums of all warps are there
    write(row, weights.inverse(total));
    if (params.lse != nullptr && ptx::thread_index() == 0) {
      ptx::store_global(params.lse + row, weights.lse(total));
    }
    if constexpr (kConfig.row_max) {
      if (warp != 0) return;
      const float highest = largest(params.partial_row_max + row * params.num_splits);
      if (lane == 0) ptx::store_global(params.row_max + row, highest);
    }
  }

 private:
  ATTNJIT_DEVICE void write(int64 row, float inverse) const {
    const int64 query = row % params.seqlen_q;
    const int64 plane = row / params.seqlen_q;
    uint16* const target =
        static_cast<uint16*>(params.out) + plane / params.num_heads_q * params.out_strides.batch +
        plane % params.num_heads_q * params.out_strides.head + query * params.out_strides.row;
    for (int column = ptx::thread_index(); column < kConfig.head_dim_v;
         column += kConfig.num_threads()) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kConfig.num_warps; ++w) {
        sum += ptx::as_float(ptx::load_shared_4(shared_sum(w, column)));
      }
      ptx::store_global(target + column,
                        static_cast<uint16>(ptx::pack<kConfig.dtype>(sum * inverse, 0.0f)));
    }
  }
};

template <ForwardCombineConfig kConfig>
ATTNJIT_DEVICE void forward_combine(const ForwardCombineParams& params) {
  ForwardCombine<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
