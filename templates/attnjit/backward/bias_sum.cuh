#pragma once
#include "attnjit/backward/bias_sum_config.h"
#include "attnjit/backward/params.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/packed_rows.cuh"
#include "attnjit/tile/store_keys.cuh"

// The last step to dbias: sums partials over the batch elements and heads that are still to be
// reduced, in fp32 and a fixed order, and rounds. Partials are dS that were added up already
// (nothing left to reduce), planes of dS in 16 bits, its column sums, or dlse, which is what the
// rows of dS sum to.
namespace attnjit::kernel {

template <BiasSumConfig kConfig, class Params>
struct BiasSum {
  const Params& params;

  // Elements of the partials from a run of a plane to the next.
  ATTNJIT_DEVICE int64 run_stride() const {
    return static_cast<int64>(params.cycle.planes) * params.batch.partials *
           params.batch.partial_stride;
  }

  // The sum over batch elements and heads of the partial at `partial`, of the first run.
  ATTNJIT_DEVICE float sum(const float* partial) const {
    if constexpr (kConfig.groups) {
      float total = 0.0f;
      for (int r = 0; r < params.cycle.runs(); ++r) total += sum_run(partial + r * run_stride());
      return total;
    } else {
      return sum_run(partial);
    }
  }
  // Loads of several partials are under way at a time; they are added in order.
  ATTNJIT_DEVICE float sum_run(const float* partial) const {
    constexpr int kAtOnce = 8;
    const int heads = params.head.partials, partials = params.batch.partials * heads;
    float total = 0.0f;
    for (int first = 0; first < partials; first += kAtOnce) {
      float values[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + i;
        if (at >= partials) continue;
        values[i] = ptx::load_global_written(partial + at / heads * params.batch.partial_stride +
                                             at % heads * params.head.partial_stride);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < partials) total += values[i];
      }
    }
    return total;
  }
  // Adds the partial at `partial` and those of the heads after it.
  ATTNJIT_DEVICE void add_heads(float& total, const float* partial) const {
    for (int h = 0; h < params.head.partials; ++h, partial += params.head.partial_stride) {
      total += ptx::load_global_written(partial);
    }
  }
  // The sum over the sequences that share a plane, whose first run has the number `run`, and over
  // heads of which `partial` is the first: of every `step`-th row of a sequence from `query` on.
  ATTNJIT_DEVICE float sum_packed(const float* partial, int64 run, int64 query, int step) const {
    if constexpr (kConfig.groups) {
      float total = 0.0f;
      for (int r = 0; r < params.cycle.runs(); ++r) {
        total += sum_packed_run(partial, run + r * params.cycle.planes, query, step);
      }
      return total;
    } else {
      return sum_packed_run(partial, run, query, step);
    }
  }
  ATTNJIT_DEVICE float sum_packed_run(const float* partial, int64 run, int64 query,
                                      int step) const {
    float total = 0.0f;
    for (int b = 0; b < params.batch.partials; ++b) {
      const int sequence = static_cast<int>(run * params.batch.partials + b);
      const PackedRange rows = range_of(params.packed, sequence);
      const float* const first =
          partial + first_packed_tile(rows.begin, sequence, kRowBlock) * kRowBlock;
      for (int64 row = query; row < rows.size; row += step) add_heads(total, first + row);
    }
    return total;
  }
  ATTNJIT_DEVICE void store(int64 target, float value) const {
    if constexpr (kConfig.dtype == DType::kFloat32) {
      ptx::store_global(static_cast<float*>(params.target) + target, value);
    } else {
      ptx::store_global(static_cast<uint16*>(params.target) + target,
                        static_cast<uint16>(ptx::pack<kConfig.dtype>(value, 0.0f)));
    }
  }
  // The sum of all threads' values, on thread 0.
  ATTNJIT_DEVICE float block_sum(float value) const {
    const uint32 slots = ptx::shared_base();
    ptx::store_shared_4(slots + 4 * ptx::thread_index(), ptx::as_bits(value));
    ptx::block_sync();  // the values are there
    float total = 0.0f;
    if (ptx::thread_index() == 0) {
      for (int i = 0; i < kConfig.num_threads(); ++i) {
        total += ptx::as_float(ptx::load_shared_4(slots + 4 * i));
      }
    }
    return total;
  }

  // Rounds the block's fragments of 16 queries by 32 keys, of which `partial` is the row's first.
  // Fragments may reach past dbias.
  ATTNJIT_DEVICE void copy_fragments(const float* partial, int64 target, int64 row,
                                     int block) const {
    const int lane = ptx::lane_index();
    const int first_key = block * kConfig.block_columns() + 8 * (lane & 3);
    const int64 query_stride = params.row.target_stride / 16;
    for (int fragment = ptx::warp_index(); fragment < kConfig.block_columns() / 32;
         fragment += kConfig.num_threads() / 32) {
      const int key = first_key + 32 * fragment;
      if (key >= params.column.size) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (16 * row + lane / 4 + 8 * h >= params.num_queries) continue;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
          const ptx::Vector16 four =
              ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(
                  partial + static_cast<int64>(key & ~31) * 16 + bias_fragment_slot(h) + 32 * i));
#pragma unroll
          for (int j = 0; j < 4; ++j) v[i + j] = ptx::as_float(four.word[j]);
        }
        store_keys<kConfig.dtype, kConfig.vectorized>(
            params.target,
            target + (lane / 4 + 8 * h) * query_stride + key * params.column.target_stride, v,
            params.column.size - key, params.column.target_stride);
      }
    }
  }

  // Adds up rows of planes of dS, of which `partial` is the first of plane number `plane`. A thread
  // has eight keys of every 16th row: 16 lanes have 128 keys.
  static constexpr int kRows = kConfig.plane_rows() / 16;  // of a thread
  using Sums = float[kRows][8];

  ATTNJIT_DEVICE void sum_planes(const uint16* partial, int64 plane, int64 target, int64 row,
                                 int block) const {
    constexpr int kPlaneRows = kConfig.plane_rows();
    const int lane = ptx::lane_index();
    const int query = 2 * ptx::warp_index() + lane / 16;
    const int key = block * kConfig.block_columns() + 8 * (lane & 15);
    const int64 queries_left = params.num_queries - kPlaneRows * row - query;
    const int rows = key < params.column.size ? static_cast<int>((queries_left + 15) / 16) : 0;
    partial += query * (params.row.partial_stride / kPlaneRows) + key;
    const StoredTiles& tiles = params.stored;
    const int64 per_plane = static_cast<int64>(tiles.q_tiles) * tiles.kv_tiles;
    const uint8* const stored =
        tiles.data + plane * per_plane + kPlaneRows * row / tiles.block_q * tiles.kv_tiles + block;
    Sums sums = {};
    if constexpr (kConfig.groups) {
      const int64 run_planes =
          static_cast<int64>(params.cycle.planes) * params.batch.partials * tiles.heads;
      for (int r = 0; r < params.cycle.runs(); ++r) {
        add_planes(sums, partial + r * run_stride(), stored + r * run_planes * per_plane, rows);
      }
    } else {
      add_planes(sums, partial, stored, rows);
    }
    const int64 target_stride = params.row.target_stride / kPlaneRows;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) continue;
      store_keys<kConfig.dtype, kConfig.vectorized>(
          params.target,
          target + (query + 16 * r) * target_stride + key * params.column.target_stride, sums[r],
          params.column.size - key, params.column.target_stride);
    }
  }
  // Those of a run of batch elements and of heads, as far as their tile has been stored; a warp
  // calls it whole. The thread has `rows` rows.
  ATTNJIT_DEVICE void add_planes(Sums& sums, const uint16* partial, const uint8* stored,
                                 int rows) const {
    const StoredTiles& tiles = params.stored;
    const int64 per_plane = static_cast<int64>(tiles.q_tiles) * tiles.kv_tiles;
    const int64 row_step = 16 * (params.row.partial_stride / kConfig.plane_rows());
    const int heads = params.head.partials, planes = params.batch.partials * heads;
    for (int first = 0; first < planes; first += 32) {
      const int own = first + ptx::lane_index();
      const int64 plane = own / heads * tiles.heads + own % heads;
      uint32 left = ptx::warp_ballot(own < planes &&
                                     ptx::load_global_written(stored + plane * per_plane) != 0);
      while (left != 0) {
        constexpr int kAtOnce = 2;  // planes whose loads are under way
        ptx::Vector16 keys[kAtOnce][kRows] = {};
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i, left &= left - 1) {
          if (left == 0) continue;
          const int at = first + ptx::lowest_bit(left);
          const uint16* const rows_of_plane = partial + at / heads * params.batch.partial_stride +
                                              at % heads * params.head.partial_stride;
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            if (r >= rows) continue;
            keys[i][r] = ptx::load_global_written(
                reinterpret_cast<const ptx::Vector16*>(rows_of_plane + r * row_step));
          }
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
          for (int r = 0; r < kRows; ++r) add_eight(sums[r], keys[i][r]);
        }
      }
    }
  }
  ATTNJIT_DEVICE static void add_eight(float (&sums)[8], const ptx::Vector16& keys) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const auto bits = static_cast<uint16>(keys.word[i / 2] >> (16 * (i & 1)));
      sums[i] += ptx::widen<kConfig.partials>(bits);
    }
  }

  ATTNJIT_DEVICE void run() const {
    const int block = static_cast<int>(ptx::block_index() % params.num_column_blocks);
    int64 rest = ptx::block_index() / params.num_column_blocks;
    const int64 row = rest % params.row.size;
    rest /= params.row.size;
    const int64 head = rest % params.head.size;
    const int64 batch = rest / params.head.size;
    int64 run = batch;  // of neighbouring batch elements: the first that shares the plane
    if constexpr (kConfig.groups) run = params.cycle.first_run(static_cast<uint32>(batch));
    const int64 first = run * params.batch.partials * params.batch.partial_stride +
                        head * params.head.partials * params.head.partial_stride +
                        row * params.row.partial_stride;
    const int64 target = batch * params.batch.target_stride + head * params.head.target_stride +
                         row * params.row.target_stride;
    if constexpr (kConfig.sums_planes()) {
      const int64 plane =
          run * params.batch.partials * params.stored.heads + head * params.head.partials;
      sum_planes(static_cast<const uint16*>(params.partials) + first, plane, target, row, block);
      return;
    }
    const float* const partial = static_cast<const float*>(params.partials) + first;
    if (params.fragments != 0) {
      copy_fragments(partial, target, row, block);
    } else if constexpr (kConfig.over_queries) {
      float total = 0.0f;
      if constexpr (kConfig.packed) {
        total = sum_packed(partial, run, ptx::thread_index(), kConfig.num_threads());
      } else {
        for (int q = ptx::thread_index(); q < params.column.partials; q += kConfig.num_threads()) {
          total += sum(partial + q * params.column.partial_stride);
        }
      }
      total = block_sum(total);
      if (ptx::thread_index() == 0) store(target, total);
    } else {
#pragma unroll
      for (int i = 0; i < kConfig.block_columns(); i += kConfig.num_threads()) {
        const int64 column = block * kConfig.block_columns() + i + ptx::thread_index();
        if (column >= params.column.size) continue;
        store(target + column * params.column.target_stride,
              kConfig.packed ? sum_packed(partial, run, column, params.packed.num_rows)
                             : sum(partial + column * params.column.partial_stride));
      }
    }
  }
};

template <BiasSumConfig kConfig, class Params>
ATTNJIT_DEVICE void bias_sum(const Params& params) {
  BiasSum<kConfig, Params>{params}.run();
}

}  // namespace attnjit::kernel
