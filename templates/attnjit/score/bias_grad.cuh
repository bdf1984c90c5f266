#pragma once
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/bias_grad_params.h"
#include "attnjit/score/block.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/store_keys.cuh"

// Policies for the gradient of a bias: dS, summed over the axes that dbias reduces. Each takes the
// thread's scores of the tiles, eight neighbouring keys of a row at a time.
namespace attnjit::kernel {

// The thread's keys of a span of a tile: eight neighbouring keys in each of its rows.
struct ThreadSpan {
  int row;  // of the head: the first, others follow 8 rows later each
  int key;  // of the bias: the first
  bool exists;

  template <class Kernel>
  ATTNJIT_DEVICE ThreadSpan(const Kernel& kernel, int first_row, int kv_tile, int span)
      : row(first_row + kernel.warp_row() + ptx::lane_index() / 4),
        key(kv_tile * Kernel::kBlockKv + kernel.span_key(span) + kernel.block.thread_key),
        exists(kernel.has_scores() && key < kernel.block.operand_keys) {}

  // visit(values, m, h) for the eight keys of row 16 m + 8 h after the first. Rows past the bias
  // are left out; the keys may reach past it.
  template <class Kernel, class Visit>
  ATTNJIT_DEVICE void for_each_row(const Kernel& kernel, const typename Kernel::Tile& ds,
                                   Visit visit) const {
    if (!exists) return;
#pragma unroll
    for (int m = 0; m < Kernel::kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (row + 16 * m + 8 * h >= kernel.block.operand_queries) continue;
        float values[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] = ds[m][i / 2][2 * h + (i & 1)];
        visit(values, m, h);
      }
    }
  }
};

// What all policies share.
struct BiasGrad {
  const BiasGradParams& params;
  int64 plane;  // of the current head: its first element

  ATTNJIT_DEVICE explicit BiasGrad(const BiasGradParams& p) : params(p), plane(0) {}

  ATTNJIT_DEVICE int64 plane_of(int batch, int head) const {
    return batch * params.batch_stride + head / params.heads_per_plane * params.head_stride;
  }
  // Moves to the plane of a head; `batch` is the index of a plane over the batch.
  ATTNJIT_DEVICE void enter_plane(int batch, int head) { plane = plane_of(batch, head); }
  ATTNJIT_DEVICE void enter_head(const Block& block) { enter_plane(block.batch, block.head); }
  // The first of the `count` batch elements that share a plane over the batch, and the distance to
  // the others.
  ATTNJIT_DEVICE int first_sharer(int plane, int count) const { return plane * count; }
  ATTNJIT_DEVICE int sharer_offset(int index) const { return index; }
  template <class Kernel>
  ATTNJIT_DEVICE void skip(Kernel&, int, int, int) {}
  template <class Team, class Kernel>
  ATTNJIT_DEVICE void leave_head(Team, Kernel&, int) {}
};

// Nothing is reduced: each tile is written where it belongs, rounded to kDType.
template <DType kDType, bool kVectorized>
struct BiasGradStore : BiasGrad {
  using BiasGrad::BiasGrad;

  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel& kernel, const typename Kernel::Tile& ds, int kv_tile, int span) {
    store(kernel, ds, plane, kernel.block.first_row, kv_tile, span);
  }
  // Skipped tiles are zero.
  template <class Kernel>
  ATTNJIT_DEVICE void skip(Kernel& kernel, int head, int q_tile, int kv_tile) {
    typename Kernel::Tile zero;
    zero = 0.0f;
#pragma unroll
    for (int span = 0; span < Kernel::kSpans; ++span) {
      store(kernel, zero, plane_of(kernel.block.batch, head), q_tile * Kernel::kBlockQ, kv_tile,
            span);
    }
  }

 private:
  template <class Kernel>
  ATTNJIT_DEVICE void store(const Kernel& kernel, const typename Kernel::Tile& ds,
                            int64 first_element, int first_row, int kv_tile, int span) const {
    const ThreadSpan own(kernel, first_row, kv_tile, span);
    const int64 first = first_element + own.row * params.query_stride + own.key * params.key_stride;
    const int keys = kernel.block.operand_keys - own.key;
    own.for_each_row(kernel, ds, [&](const float(&v)[8], int m, int h) {
      store_keys<kDType, kVectorized>(params.data, first + (16 * m + 8 * h) * params.query_stride,
                                      v, keys, params.key_stride);
    });
  }
};

// Batch or heads are reduced: tiles are added to fp32 sums in fragments of 16 queries by 32 keys,
// [plane][query / 16][key / 32][512] as bias_fragment_slot() has it, so that a warp adds to whole
// lines. A plane is whole fragments: sums past the bias are not read. All begin at 0.
struct BiasGradAdd : BiasGrad {
  using BiasGrad::BiasGrad;

  template <class Kernel>
  ATTNJIT_DEVICE void add(Kernel& kernel, const typename Kernel::Tile& ds, int kv_tile, int span) {
    const ThreadSpan own(kernel, kernel.block.first_row, kv_tile, span);
    // The thread's offset in its fragment follows from its row and key.
    float* const first = static_cast<float*>(params.data) + plane +
                         (own.row & ~15) * params.query_stride + (own.key & ~31) * int64{16};
    own.for_each_row(kernel, ds, [&](const float(&v)[8], int m, int h) {
      float* const target = first + 16 * m * params.query_stride + bias_fragment_slot(h);
      ptx::add_global_4(target, {v[0], v[1], v[2], v[3]});
      ptx::add_global_4(target + 128, {v[4], v[5], v[6], v[7]});
    });
  }
};

// The queries are reduced: columns are summed in registers over the tiles of a head, then over the
// warps, and added to fp32 sums, [batch][query head][key], which begin at 0. kSpans: of a warp.
template <int kSpans>
struct BiasGradColumns : BiasGrad {
  using BiasGrad::BiasGrad;
  float sum[kSpans][8];  // of the thread's keys

  ATTNJIT_DEVICE void enter_head(const Block& block) {
    BiasGrad::enter_head(block);
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
  template <class Team, class Kernel>
  ATTNJIT_DEVICE void leave_head(Team team, Kernel& kernel, int kv_tile) {
    const int lane = ptx::lane_index();
    const bool writes = kernel.has_scores() && lane < 4;
    const uint32 first = slot(kernel, kernel.query_warp(), kernel.span_key(0) + 8 * (lane & 3));
    team.sync();  // all are done with the shared memory that the sums take
#pragma unroll
    for (int s = 0; s < kSpans; ++s) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float total = ptx::column_sum(sum[s][i]);
        if (writes) ptx::store_shared_4(first + 4 * (32 * s + i), ptx::as_bits(total));
      }
    }
    team.sync();  // the sums of all warps are there
    const int first_key = kv_tile * Kernel::kBlockKv;
    for (int i = team.index(); i < Kernel::kBlockKv; i += Team::kSize) {
      if (first_key + i >= kernel.block.operand_keys) continue;
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < Kernel::kQueryWarps; ++w) {
        total += ptx::as_float(ptx::load_shared_4(slot(kernel, w, i)));
      }
      ptx::add_global(static_cast<float*>(params.data) + plane + first_key + i, total);
    }
    team.sync();  // all are done with the sums
  }

 private:
  template <class Kernel>
  ATTNJIT_DEVICE static uint32 slot(const Kernel& kernel, int warp, int key) {
    return kernel.scratch() + (warp * Kernel::kBlockKv + key) * 4;
  }
};

}  // namespace attnjit::kernel
