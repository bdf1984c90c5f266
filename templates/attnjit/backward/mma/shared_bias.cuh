#pragma once
#include "attnjit/backward/mma/shared_bias_config.h"
#include "attnjit/backward/mma/sharers.cuh"
#include "attnjit/score/held_bias.cuh"
#include "attnjit/tile/store_warp_rows.cuh"

// The backward with a bias over queries and keys that batch elements share, as triangle attention
// has one, for GPUs from sm_80 on. With P and dS of backward/mma/scores.cuh,
//
//   dq = scale dS k        dbias = sum of dS              backward/mma/shared_bias_queries.cuh
//   dk = scale dS^T q      dv = P^T dout                  backward/mma/shared_bias_keys.cuh
//
// A thread block has a strip of rows, which are queries or keys, and all columns, the other ones:
//
//                  columns: column_warps() shares, a span of 32 at a time
//                +---------+---------+----
//   32 rows      | warp 0  | warp 1  |        the strip's bias stays in shared memory, and sums of
//   32 rows      | warp 4  | warp 5  |        dbias in registers
//                +---------+---------+----
//
// It walks over the (batch element, head) pairs that share the plane of the bias, or its share of
// them. Gradients of a strip are complete but for the shares of the columns, which warps exchange
// through shared memory: nothing is added up in global memory but one dbias per thread block.
namespace attnjit::kernel {

template <BackwardSharedBiasConfig kConfig, class Features, class BiasGrad,
          BackwardMmaConfig kMma = kConfig.mma()>
struct SharedBiasStrip : PlaneSharers<kMma, Features, BiasGrad, kConfig.scores()> {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in backward/mma/shared_bias_config.h");
  using Base = PlaneSharers<kMma, Features, BiasGrad, kConfig.scores()>;
  using Base::block, Base::end_sharer, Base::features, Base::next_sharer, Base::params, Base::warp;
  using typename Base::DoutTile, typename Base::KTile, typename Base::QTile, typename Base::VTile;
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kSpans = kConfig.spans();
  static constexpr int kColumnGroups = kMma.padded_head_dim() / 8,
                       kColumnGroupsV = kMma.padded_head_dim_v() / 8;
  static constexpr int kTiles = kConfig.row_tiles;
  using Rounded = uint32[kTiles][4][2];  // scores of a span, as an operand

  // One of the pairs; empty after the last.
  struct Job {
    int batch, head;
    ATTNJIT_DEVICE bool exists() const { return batch >= 0; }
  };

  static constexpr int kDepth = kMma.padded_head_dim() / 16,
                       kDepthV = kMma.padded_head_dim_v() / 16;
  // Column groups of the gradients that warps exchange, and those of each of them.
  static constexpr int kAllGroups = kColumnGroups + (kConfig.keys_at_rest ? kColumnGroupsV : 0);
  static constexpr int kOwnGroups = ceil_div(kAllGroups, kConfig.column_warps());
  static_assert(kColumnGroups % kOwnGroups == 0, "a warp writes one gradient");

  // Of the threads that load.
  static constexpr bool kHasLoaders = kConfig.load_warps() > 0;
  static constexpr int kLoadThreads = 32 * (kHasLoaders ? kConfig.load_warps() : kConfig.num_warps);

  int strip;
  int next_batch, next_head;  // of the next pair, counted from the first one that shares the plane

  using Base::Base;

  ATTNJIT_DEVICE static uint32 stage(int slot) {
    return ptx::shared_base() + slot * kConfig.stage_bytes();
  }
  ATTNJIT_DEVICE static QTile q_tile(int slot) { return {stage(slot)}; }
  ATTNJIT_DEVICE static DoutTile dout_tile(int slot) { return {stage(slot) + kMma.q_bytes()}; }
  ATTNJIT_DEVICE static KTile k_tile(int slot) {
    return {stage(slot) + kMma.q_bytes() + kMma.dout_bytes()};
  }
  ATTNJIT_DEVICE static VTile v_tile(int slot) {
    return {stage(slot) + kMma.q_bytes() + kMma.dout_bytes() + kMma.k_bytes()};
  }
  ATTNJIT_DEVICE static uint32 rows(int slot) {
    return stage(slot) + kConfig.tiles_bytes() - kMma.rows_bytes();
  }
  // Of a bit for each key of the tile, whether a query sees it.
  ATTNJIT_DEVICE static uint32 kept_keys(int slot) { return stage(slot) + kConfig.kept_begin(); }
  // Of the warp's bias of a span.
  ATTNJIT_DEVICE uint32 held_bias(int span) const {
    return stage(kConfig.num_stages) + (warp * kSpans + span) * (kTiles * kHeldTileBytes);
  }

  // The warp's first row of the strip, and the first column of a span.
  ATTNJIT_DEVICE int strip_row() const { return warp / kConfig.column_warps() * (16 * kTiles); }
  ATTNJIT_DEVICE int column_warp() const { return warp % kConfig.column_warps(); }
  ATTNJIT_DEVICE int span_column(int span) const {
    return column_warp() * kConfig.warp_columns() + 32 * span;
  }

  // Turns to a strip, and to the thread block's share of the pairs.
  ATTNJIT_DEVICE void enter_strip(int num_strips) {
    const auto index = static_cast<int>(ptx::block_index());
    strip = index % num_strips;
    this->enter_plane(index / num_strips);
    next_batch = next_sharer / this->num_heads;
    next_head = next_sharer % this->num_heads;
  }
  ATTNJIT_DEVICE Job next_job() {
    if (next_sharer++ >= end_sharer) return {-1, 0};
    const Job job = {this->first_batch + this->bias_grad.sharer_offset(next_batch),
                     this->first_head + next_head};
    if (++next_head == this->num_heads) {
      next_head = 0;
      ++next_batch;
    }
    return job;
  }

  ATTNJIT_DEVICE bool computes() const { return !kHasLoaders || warp < kConfig.num_warps; }
  // Walks over the pairs: load(slot, job) starts loading the tiles of one, and attend(job, slot)
  // works on them, with two barriers of the thread block.
  template <class Load, class Attend>
  ATTNJIT_DEVICE void walk_pairs(Load load, Attend attend) {
    constexpr bool kAhead = kConfig.num_stages == 2;
    const bool loads = !kHasLoaders || warp >= kConfig.num_warps;
    const auto start = [&](int slot, const Job& job) {
      if (!loads) return;
      if (job.exists()) load(slot, job);
      ptx::copy_async_commit();
    };
    Job job = next_job();
    start(0, job);
    for (int slot = 0; job.exists(); slot ^= kAhead) {
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // the tiles are there for all; all are done with the pair before
      const Job next = next_job();
      if (kAhead) start(slot ^ 1, next);
      if (computes()) {
        attend(job, slot);
      } else {
        ptx::block_sync();  // those of attend()
        ptx::block_sync();
      }
      if (!kAhead) {
        ptx::block_sync();  // all are done with the sums, which tiles overwrite
        start(0, next);
      }
      job = next;
    }
  }

  // A tile of kRows rows is loaded by so many warps, 32 / kChunks rows of each at a time.
  static constexpr int kLoaders = kHasLoaders ? kConfig.load_warps() : kConfig.num_warps / 2;
  template <int kRows, int kPadded>
  struct Share {
    static constexpr int kChunks = kPadded / 8, kWarpRows = 32 / kChunks;
    static constexpr int kStep = kLoaders * kWarpRows, kPasses = ceil_div(kRows, kStep);
    static constexpr int kWords = ceil_div(kPasses, kChunks);
    ATTNJIT_DEVICE static int first_row() { return ptx::warp_index() % kLoaders * kWarpRows; }

    uint32 kept[kWords];  // bits of the warp's rows, kChunks passes in a word

    // Finds out which rows are kept: keep(row) tells.
    template <class Keep>
    ATTNJIT_DEVICE explicit Share(Keep keep) {
      const int lane = ptx::lane_index();
      bool own[kWords];  // all reads are under way before the first is waited for
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int row = (i * kChunks + lane / kWarpRows) * kStep + first_row() + lane % kWarpRows;
        own[i] = (row < kRows) & keep(row);
      }
#pragma unroll
      for (int i = 0; i < kWords; ++i) kept[i] = ptx::warp_ballot(own[i]);
    }
    // Starts loading the warp's rows of a tile from rows that are `stride` apart. Whatever a row
    // that is not kept holds must not meet a probability of 0: it becomes zero and is not read.
    template <int kColumns>
    ATTNJIT_DEVICE void load(const SharedTile<kRows, kPadded>& tile, const uint16* source,
                             int64 stride) const {
      const int row = first_row() + ptx::lane_index() / kChunks;
      const int chunk = ptx::lane_index() % kChunks;
      const auto target = cursor(tile, row, chunk);
      const uint16* address = source + row * stride + 8 * chunk;
      const int64 step = kStep * stride;
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass, address += step) {
        if (kRows % kStep != 0 && pass * kStep + row >= kRows) break;
        const int bit = pass % kChunks * kWarpRows + ptx::lane_index() / kChunks;
        const bool valid = (kept[pass / kChunks] >> bit & 1) != 0;
        ptx::copy_async_16(target.at(pass * kStep, 0), address,
                           valid && (kColumns == kPadded || 8 * chunk < kColumns));
      }
    }
  };
  // Whether the row of a tile of queries that begins at `first` is alive. Those past the tensor are
  // not, but a bit of its last one is there.
  ATTNJIT_DEVICE auto lives_from(int first) const {
    const int64 plane = static_cast<int64>(block.tensor_batch) * params.num_heads_q + block.head;
    const uint32* const live = params.rows.live + plane * (params.padded_rows / 32);
    return [live, first, last = params.padded_rows - 1, end = params.seqlen_q](int row) {
      const auto bit = static_cast<uint32>(first + row < last ? first + row : last);
      return ((ptx::load_global(live + bit / 32) >> (bit & 31)) & (first + row < end)) != 0;
    };
  }
  // The same of keys that a query sees.
  ATTNJIT_DEVICE auto keeps_from(int first) {
    const KeyRange keys = this->keys_of_head();
    return [this, first, keys, last = block.seqlen_kv - 1](int row) {
      const int key = first + row;
      return features.reads_key(key < last ? key : last) & (key >= keys.begin) & (key < keys.end);
    };
  }
  // Starts loading lse and delta of the tile of queries `q_tile`. Past their end rows are dead.
  ATTNJIT_DEVICE void load_numbers(int slot, int q_tile) const {
    constexpr int kChunks = kConfig.block_q / 4, kThreads = kLoadThreads;
    const auto [first_row, num_rows] = this->padded_rows_of(block.head);
#pragma unroll
    for (int first = 0; first < 2 * kChunks; first += kThreads) {
      const int i = first + ptx::thread_index() % kThreads;
      if (2 * kChunks % kThreads != 0 && i >= 2 * kChunks) break;
      const bool is_lse = i < kChunks;
      const int row = q_tile * kConfig.block_q + i % kChunks * 4;
      const float* array = is_lse ? params.rows.lse : params.rows.delta;
      if (row < num_rows) {
        ptx::copy_async_16(rows(slot) + 16 * i, array + first_row + row, true);
      } else {
        const uint32 none = ptx::as_bits(is_lse ? ptx::infinity() : 0.0f);
        ptx::store_shared_16(rows(slot) + 16 * i, {none, none, none, none});
      }
    }
  }
  // Leaves a bit for each key of a tile.
  template <class Keeps>
  ATTNJIT_DEVICE void leave_kept(int slot, Keeps keeps) const {
    constexpr int kThreads = kLoadThreads;
#pragma unroll
    for (int first = 0; first < kConfig.block_kv; first += kThreads) {
      const int row = first + ptx::thread_index() % kThreads;
      if (kConfig.block_kv % kThreads != 0 && row / 32 * 32 >= kConfig.block_kv) break;
      const uint32 kept = ptx::warp_ballot(keeps(row));
      if (row % 32 == 0) ptx::store_shared_4(kept_keys(slot) + row / 8, kept);
    }
  }
  // Starts loading the tiles of the pair at hand. Of two halves of the warps one has Q and K.
  ATTNJIT_DEVICE void load_tiles(int slot, int q_tile, int kv_tile) {
    const int query = q_tile * kConfig.block_q, key = kv_tile * kConfig.block_kv;
    const auto lives = lives_from(query);
    const auto keeps = keeps_from(key);
    const auto row_of = [&](const void* base, const RowStrides& strides, int row) {
      return Base::head_of(static_cast<const uint16*>(base), strides, block.tensor_batch,
                           block.head) +
             row * strides.row;
    };
    if (kHasLoaders || warp < kConfig.num_warps / 2) {
      const Share<kConfig.block_q, kMma.padded_head_dim()> queries(lives);
      const Share<kConfig.block_kv, kMma.padded_head_dim()> keys(keeps);
      queries.template load<kConfig.head_dim>(SharedBiasStrip::q_tile(slot),
                                              row_of(params.q, params.q_strides, query),
                                              params.q_strides.row);
      keys.template load<kConfig.head_dim>(k_tile(slot), row_of(params.k, params.k_strides, key),
                                           params.k_strides.row);
    }
    if (kHasLoaders || warp >= kConfig.num_warps / 2) {
      const Share<kConfig.block_q, kMma.padded_head_dim_v()> queries(lives);
      const Share<kConfig.block_kv, kMma.padded_head_dim_v()> keys(keeps);
      queries.template load<kConfig.head_dim_v>(dout_tile(slot),
                                                row_of(params.dout, params.dout_strides, query),
                                                params.dout_strides.row);
      keys.template load<kConfig.head_dim_v>(v_tile(slot), row_of(params.v, params.v_strides, key),
                                             params.v_strides.row);
    }
    load_numbers(slot, q_tile);
    leave_kept(slot, keeps);
  }

  ATTNJIT_DEVICE static void round(Rounded& rounded, const Fragments<kTiles, 4>& scores) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float(&group)[4] = scores[m][n];
        rounded[m][n][0] = ptx::pack<kDType>(group[0], group[1]);
        rounded[m][n][1] = ptx::pack<kDType>(group[2], group[3]);
      }
    }
  }

  // Sums pass between warps as [warp][row tile][column group][lane], in the place of the tiles in
  // `slot`.
  ATTNJIT_DEVICE static uint32 exchange_slot(int slot, int of_warp, int m, int group) {
    return stage(slot) +
           (((of_warp * kTiles + m) * kAllGroups + group) * 32 + ptx::lane_index()) * 16;
  }
  template <int kCount>
  ATTNJIT_DEVICE void leave_sums(int slot, int first_group,
                                 const Fragments<kTiles, kCount>& sums) const {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
        const float(&group)[4] = sums[m][n];
        ptx::store_shared_16(exchange_slot(slot, warp, m, first_group + n),
                             {ptx::as_bits(group[0]), ptx::as_bits(group[1]),
                              ptx::as_bits(group[2]), ptx::as_bits(group[3])});
      }
    }
  }
  // The first of the groups that the warp writes.
  ATTNJIT_DEVICE int first_group() const { return column_warp() * kOwnGroups; }
  // Writes the warp's groups, of a gradient that begins with group `origin`, summed over the warps
  // that have the same rows. `target` is the thread's first row, of `rows` up to the end;
  // keeps(row) tells of those that are not zeros, by their distance from the first.
  template <class Keeps>
  ATTNJIT_DEVICE void write_sums_of(int slot, int origin, int columns, float factor, uint16* target,
                                    int64 stride, int rows, Keeps keeps) const {
    const int first_warp = warp - column_warp();
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      const bool kept[2] = {keeps(16 * m), keeps(16 * m + 8)};
#pragma unroll
      for (int i = 0; i < kOwnGroups; ++i) {
        const int group = first_group() + i, column = 8 * (group - origin);
        if (column >= columns) continue;
        float sum[4] = {};
#pragma unroll
        for (int w = 0; w < kConfig.column_warps(); ++w) {
          const ptx::Vector16 part =
              ptx::load_shared_16(exchange_slot(slot, first_warp + w, m, group));
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[e] += ptx::as_float(part.word[e]);
        }
        uint16* const pairs = target + column + 2 * (ptx::lane_index() & 3);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = 16 * m + 8 * h;
          // A select: sums of a dropped key may hold NaN.
          const uint32 pair = ptx::pack<kDType>(sum[2 * h] * factor, sum[2 * h + 1] * factor);
          if (row >= rows) continue;
          ptx::store_global(reinterpret_cast<uint32*>(pairs + row * stride), kept[h] ? pair : 0u);
        }
      }
    }
  }
};

}  // namespace attnjit::kernel
