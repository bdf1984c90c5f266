#pragma once
#include "attnjit/forward/combine_config.h"
#include "attnjit/forward/lse_weights.cuh"
#include "attnjit/ptx/exchange.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

// Adds up the splits of a forward whose keys were shared out over thread blocks
// (forward/lse_weights.cuh). One thread block computes one row. Groups of lanes sum every
// kGroups-th split, a lane four neighbouring columns at a time; then the sums of a warp's groups
// are added by shuffles, and those of the warps through shared memory. A row may have a thousand
// splits and be the only one, so what counts is how many reads are under way: those of kBatch
// splits per group at a time.
namespace attnjit::kernel {

template <ForwardCombineConfig kConfig>
struct ForwardCombine {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward/combine_config.h");
  static constexpr int kColumns = kConfig.padded_head_dim_v();
  static constexpr int kVectors = (kColumns + 127) / 128;  // of four columns that a lane holds
  static constexpr int kLanes = kColumns > 64   ? 32       // of a group
                                : kColumns > 32 ? 16
                                : kColumns > 16 ? 8
                                                : 4;
  static constexpr int kGroups = kConfig.num_threads() / kLanes;
  static constexpr int kBatch = kVectors == 1 ? 8 : 4;

  const ForwardCombineParams& params;

  // The shared element of a warp's sum.
  ATTNJIT_DEVICE static uint32 shared_sum(int warp, int column) {
    return ptx::shared_base() + (warp * kColumns + column) * 4;
  }

  // The largest of a number per split. Warps call it whole.
  ATTNJIT_DEVICE float largest(const float* numbers) const {
    float highest = -ptx::infinity();
#pragma unroll 8
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
    const LseWeights weights(largest(lses));
    float total = 0.0f;
#pragma unroll 8
    for (int s = lane; s < params.num_splits; s += 32) {
      total += weights.weight(ptx::load_global_written(lses + s));
    }
    total = ptx::warp_sum(total);

    float sum[kVectors][4] = {};
    const int group = ptx::thread_index() / kLanes;
    for (int first = group; first < params.num_splits; first += kBatch * kGroups) {
      add_batch(row, first, weights, sum);
    }
#pragma unroll
    for (int p = 0; p < kVectors; ++p) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int distance = kLanes; distance < 32; distance *= 2) {
          sum[p][i] += ptx::as_float(ptx::exchange(ptx::as_bits(sum[p][i]), distance));
        }
        const int column = 128 * p + 4 * lane + i;
        if (lane < kLanes && column < kColumns) {
          ptx::store_shared_4(shared_sum(warp, column), ptx::as_bits(sum[p][i]));
        }
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
  // Adds every kGroups-th split from `first` on, kBatch of them: all are read before one is used.
  // What lies past the last split or column is read as that one, and not added: with a condition on
  // a read ptxas 13.0 makes each wait for the one before.
  ATTNJIT_DEVICE void add_batch(int64 row, int first, const LseWeights& weights,
                                float (&sum)[kVectors][4]) const {
    const float* const lses = params.partial_lse + row * params.num_splits;
    const float* const partial = params.partial_out + row * params.num_splits * kColumns;
    const int last = params.num_splits - 1;
    const auto index = [&](int b) { return first + b * kGroups; };
    const auto read_index = [&](int b) { return index(b) < last ? index(b) : last; };
    float weight[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      weight[b] = weights.weight(ptx::load_global_written(lses + read_index(b)));
    }
    ptx::Vector16 outs[kBatch][kVectors];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const float* const split_out = partial + static_cast<int64>(read_index(b)) * kColumns;
#pragma unroll
      for (int p = 0; p < kVectors; ++p) {
        const int column = 128 * p + 4 * (ptx::lane_index() % kLanes);
        outs[b][p] = ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(
            split_out + (column < kColumns ? column : kColumns - 4)));
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
#pragma unroll
      for (int p = 0; p < kVectors; ++p) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float term = weight[b] * ptx::as_float(outs[b][p].word[i]);
          sum[p][i] += index(b) <= last ? term : 0.0f;
        }
      }
    }
  }

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
