#pragma once
#include "attnjit/backward_config.h"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/bias_grad_params.h"
#include "attnjit/tile/store_keys.cuh"

// Policies for the gradient of a bias: dS, summed over the axes that dbias reduces. Each takes the
// thread's parts of the tiles, eight neighbouring keys of a row at a time.
namespace attnjit::kernel {

// visit(values, row, key) for each eight keys of the thread: `row` of the head, first key of the
// tensor. Keys and rows past the tensor are left out; the last eight keys may reach past it.
template <class Kernel, class Visit>
ATTNJIT_DEVICE void for_each_row(const Kernel& kernel, const typename Kernel::Tile& ds,
                                 int first_row, int kv_tile, int span, Visit visit) {
  if (!Kernel::has_scores()) return;
  // Before lanes part: the index of a warp is asked for together.
  const int thread_row = first_row + Kernel::warp_row() + ptx::lane_index() / 4;
  const int key = kv_tile * Kernel::kBlockKv + Kernel::span_key(span) + kernel.block.thread_key;
  if (key >= kernel.block.seqlen_kv) return;
#pragma unroll
  for (int m = 0; m < Kernel::kRowTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = thread_row + 16 * m + 8 * h;
      if (row >= kernel.block.seqlen_q) continue;
      float values[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = ds[m][i / 2][2 * h + (i & 1)];
      visit(values, row, key);
    }
  }
}

// What all policies share.
struct BiasGrad {
  const BiasGradParams& params;

  ATTNJIT_DEVICE explicit BiasGrad(const BiasGradParams& p) : params(p) {}

  ATTNJIT_DEVICE int64 index(int batch, int head, int row, int key) const {
    return batch * params.batch_stride + head / params.heads_per_plane * params.head_stride +
           row * params.query_stride + key * params.key_stride;
  }

  ATTNJIT_DEVICE void begin() {}
  template <class Kernel>
  ATTNJIT_DEVICE void skip(Kernel&, int, int, int) {}
  template <class Kernel>
  ATTNJIT_DEVICE void leave_head(Kernel&, int) {}
};

// Nothing is reduced: each tile is written where it belongs, rounded to kDType.
template <DType kDType, bool kVectorized>
struct BiasGradStore : BiasGrad {
  using BiasGrad::BiasGrad;

  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel& kernel, const typename Kernel::Tile& ds, int kv_tile, int span) {
    store(kernel, ds, kernel.block.head, kernel.block.first_row, kv_tile, span);
  }
  // Skipped tiles are zero.
  template <class Kernel>
  ATTNJIT_DEVICE void skip(Kernel& kernel, int head, int q_tile, int kv_tile) {
    typename Kernel::Tile zero;
    for_each_score(zero, [](float& element, int, int, int) { element = 0.0f; });
#pragma unroll
    for (int span = 0; span < Kernel::kSpans; ++span) {
      store(kernel, zero, head, q_tile * Kernel::kBlockQ, kv_tile, span);
    }
  }

 private:
  template <class Kernel>
  ATTNJIT_DEVICE void store(Kernel& kernel, const typename Kernel::Tile& ds, int head,
                            int first_row, int kv_tile, int span) const {
    for_each_row(kernel, ds, first_row, kv_tile, span, [&](const float(&v)[8], int row, int key) {
      const int64 first = index(kernel.block.batch, head, row, key);
      const int keys = kernel.block.seqlen_kv - key;
      store_keys<kDType, kVectorized>(params.data, first, v, keys, params.key_stride);
    });
  }
};

// Batch or heads are reduced: tiles are added to fp32 sums, [plane][query][key] or, where 16
// divides the queries and 32 the keys, [plane][query / 16][key / 32][512] as bias_fragment_slot()
// has it, so that a warp adds to whole lines. The sums begin at 0.
struct BiasGradAdd : BiasGrad {
  using BiasGrad::BiasGrad;

  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel& kernel, const typename Kernel::Tile& ds, int kv_tile, int span) {
    const Block& block = kernel.block;
    float* const data = static_cast<float*>(params.data);
    for_each_row(
        kernel, ds, block.first_row, kv_tile, span, [&](const float(&v)[8], int row, int key) {
          if (params.fragments != 0) {
            // The thread's place in a piece of 16 rows by 32 keys follows from its row and key.
            const int64 piece = index(block.batch, block.head, row & ~15, 0) + (key & ~31) * 16;
            float* const target = data + piece + bias_fragment_slot(row >> 3 & 1);
            ptx::add_global_4(target, {v[0], v[1], v[2], v[3]});
            ptx::add_global_4(target + 128, {v[4], v[5], v[6], v[7]});
            return;
          }
          float* const target = data + index(block.batch, block.head, row, key);
          const int keys = block.seqlen_kv - key;
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (i < keys) ptx::add_global(target + i, v[i]);
          }
        });
  }
};

// The queries are reduced: columns are summed in registers over the tiles of a head, then over the
// warps, and added to fp32 sums, [batch][query head][key], which begin at 0.
template <BackwardConfig kConfig>
struct BiasGradColumns : BiasGrad {
  using BiasGrad::BiasGrad;
  static constexpr int kSpans = kConfig.warp_keys() / 32;
  float sum[kSpans][8];  // of the thread's keys

  ATTNJIT_DEVICE void begin() {
#pragma unroll
    for (int s = 0; s < kSpans; ++s) {
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[s][i] = 0.0f;
    }
  }
  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel&, const typename Kernel::Tile& ds, int, int span) {
#pragma unroll
    for (int m = 0; m < Kernel::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float(&group)[4] = ds[m][i / 2];
        sum[span][i] += group[i & 1] + group[2 + (i & 1)];
      }
    }
  }
  template <class Kernel>
  ATTNJIT_DEVICE void leave_head(Kernel& kernel, int kv_tile) {
    const int lane = ptx::lane_index();
    // Before lanes part: the index of a warp is asked for together.
    const bool writes = Kernel::has_scores() && lane < 4;
    const uint32 first = slot(kernel, Kernel::query_warp(), Kernel::span_key(0) + 8 * (lane & 3));
    ptx::block_sync();  // all are done with the shared memory that the sums take
#pragma unroll
    for (int s = 0; s < kSpans; ++s) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float total = ptx::column_sum(sum[s][i]);
        if (writes) ptx::store_shared_4(first + 4 * (32 * s + i), ptx::as_bits(total));
      }
    }
    ptx::block_sync();  // the sums of all warps are there
    const int first_key = kv_tile * kConfig.block_kv;
    for (int i = ptx::thread_index(); i < kConfig.block_kv; i += kConfig.num_threads()) {
      if (first_key + i >= kernel.block.seqlen_kv) continue;
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < kConfig.query_warps; ++w) {
        total += ptx::as_float(ptx::load_shared_4(slot(kernel, w, i)));
      }
      ptx::add_global(static_cast<float*>(params.data) +
                          index(kernel.block.batch, kernel.block.head, 0, first_key + i),
                      total);
    }
    ptx::block_sync();  // all are done with the sums
    begin();
  }

 private:
  template <class Kernel>
  ATTNJIT_DEVICE static uint32 slot(const Kernel& kernel, int warp, int key) {
    return kernel.scratch() + (warp * kConfig.block_kv + key) * 4;
  }
};

}  // namespace attnjit::kernel
