#pragma once
#include "attnjit/backward/block.cuh"
#include "attnjit/backward/mma/config.h"
#include "attnjit/backward/params.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/gradient_feature.cuh"
#include "attnjit/score/lse_difference.cuh"
#include "attnjit/tile/live_rows.cuh"
#include "attnjit/tile/products.cuh"
#include "attnjit/tile/team.cuh"

// The part that all kernels of the backward share: one tile of probabilities P and score gradients
// dS,
//
//   S = scale q k^T + features      P = exp(S - lse)
//   dP = dout v^T                   dS = P (dP - delta)
//
// block_q queries by block_kv keys, of which each warp computes warp_queries() by warp_keys(), a
// span of 32 keys at a time: more would not fit its registers. Within a span the keys follow
// KeyOrder, as in the forward.
namespace attnjit::kernel {

template <BackwardMmaConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct GradientScores : BackwardBlock<kShape, Features, BlockTeam<kConfig.num_threads()>> {
  static_assert(why_no_scores(kConfig) == nullptr,
                "why_no_scores(config) in backward/mma/config.h");
  using Base = BackwardBlock<kShape, Features, BlockTeam<kConfig.num_threads()>>;
  using Base::block, Base::features, Base::params;
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kRowTiles = kShape.row_tiles;
  static constexpr int kGroups = kShape.groups;
  static constexpr int kSpans = kConfig.warp_keys() / 32;
  using QTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim()>;
  using DoutTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim_v()>;
  using KTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim()>;
  using VTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim_v()>;
  using Tile = Fragments<kRowTiles, kGroups>;
  using Base::kBlockKv, Base::kBlockQ;
  static constexpr int kQueryWarps = kConfig.query_warps;

  int warp;  // of the block

  ATTNJIT_DEVICE GradientScores(const BackwardParams& p, const Features& f)
      : Base(p, f), warp(ptx::warp_index()) {}

  ATTNJIT_DEVICE int query_warp() const { return warp / kConfig.key_warps(); }
  ATTNJIT_DEVICE int key_warp() const { return warp % kConfig.key_warps(); }
  // Whether the warp has a part of a tile of scores.
  ATTNJIT_DEVICE bool has_scores() const {
    return kConfig.score_warps() == kConfig.num_warps || warp < kConfig.score_warps();
  }
  // First row of the warp's part of a tile, and first key of a span.
  ATTNJIT_DEVICE int warp_row() const { return query_warp() * kConfig.warp_queries(); }
  ATTNJIT_DEVICE int span_key(int span) const {
    return key_warp() * kConfig.warp_keys() + 32 * span;
  }

  // Turns to a tile of queries.
  ATTNJIT_DEVICE void enter_tile(int q_tile) {
    this->set_rows(block, q_tile);
    block.thread_row =
        block.first_row + warp_row() + ScoreShape(kShape).lane_row(ptx::lane_index());
  }

  // Starts loading the rows of a tile of queries from `base`; dead ones, by the bits of `live`,
  // become zero: whatever is stored there must not meet a probability of 0.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_queries(const Tile& tile, const void* base, const RowStrides& strides,
                                   int head, int q_tile,
                                   const LiveRowsOf<kConfig.block_q>& live) const {
    const uint16* source = this->query_rows(static_cast<const uint16*>(base), strides, head) +
                           q_tile * kConfig.block_q * strides.row;
    load_live_rows<kConfig.aligned, kColumns, kThreads, kConfig.refreshes(Fresh::kThread)>(
        tile, source, strides.row, live);
  }
  // Starts loading the rows of a tile of keys; those outside `keys`, or which no query keeps, are
  // not read but zeroed.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_keys(const Tile& tile, const void* base, const RowStrides& strides,
                                int kv_tile, const KeyRange& keys) {
    const int first = kv_tile * kConfig.block_kv;
    const uint16* source =
        this->key_rows(static_cast<const uint16*>(base), strides) + first * strides.row;
    load_tile<kConfig.aligned, kColumns, kThreads>(
        tile, [=](int row) { return source + row * strides.row; },
        [&](int row) {
          const int key = first + row;
          return key >= keys.begin && key < keys.end && features.reads_key(key);
        });
  }

  // The pipeline of all three kernels: load(slot, job) starts loading a job's tiles, one job ahead
  // where there are two buffers, and attend(job, slot) works on them. next() gives a job that does
  // not exist after the last.
  template <class Next, class Load, class Attend>
  ATTNJIT_DEVICE static void walk(Next next, Load load, Attend attend) {
    auto job = next();
    load(0, job);
    ptx::copy_async_commit();
    int slot = 0;
    while (job.exists()) {
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // the tiles are there for all; all are done with the job before
      if constexpr (kConfig.num_stages == 2) {
        const auto ahead = next();
        load(slot ^ 1, ahead);
        ptx::copy_async_commit();
        attend(job, slot);
        slot ^= 1;
        job = ahead;
      } else {
        attend(job, 0);
        ptx::block_sync();  // all are done with the tiles that are loaded next
        job = next();
        load(0, job);
        ptx::copy_async_commit();
      }
    }
  }

  // Starts loading lse and delta of a tile of queries to `rows` in shared memory. Past their end, a
  // multiple of kRowBlock, rows are dead.
  ATTNJIT_DEVICE void load_rows(uint32 rows, int head, int q_tile) const {
    constexpr int kChunks = kConfig.block_q / 4;
    const auto [first_row, num_rows] = this->padded_rows_of(head);
#pragma unroll
    for (int first = 0; first < 2 * kChunks; first += kThreads) {
      const int i = first + ptx::thread_index();
      if (i >= 2 * kChunks) break;
      const bool is_lse = i < kChunks;
      const int row = q_tile * kConfig.block_q + i % kChunks * 4;
      const float* array = is_lse ? params.rows.lse : params.rows.delta;
      if (kConfig.block_q <= kRowBlock || row < num_rows) {
        ptx::copy_async_16(rows + 16 * i, array + first_row + row, true);
      } else {
        const uint32 none = ptx::as_bits(is_lse ? ptx::infinity() : 0.0f);
        ptx::store_shared_16(rows + 16 * i, {none, none, none, none});
      }
    }
  }
  // One of the two values of the thread's rows, from where load_rows() has put them.
  using RowNumbers = RowValues<kRowTiles>;
  ATTNJIT_DEVICE void read_rows(RowNumbers& values, uint32 rows) const {
    const uint32 first = rows + 4 * (warp_row() + ptx::lane_index() / 4);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        values[m][h] = ptx::as_float(ptx::load_shared_4(first + 4 * (16 * m + 8 * h)));
      }
    }
  }
  ATTNJIT_DEVICE void read_lse(RowNumbers& lse, uint32 rows) const { read_rows(lse, rows); }
  ATTNJIT_DEVICE void read_delta(RowNumbers& delta, uint32 rows) const {
    read_rows(delta, rows + 4 * kConfig.block_q);
  }

  // The derivatives of a span's scores by scaled q k^T; where they are all 1 there is nothing to
  // keep.
  struct Ones {};
  using Slopes = TypeIf<Features::kTransforms, Tile, Ones>;
  ATTNJIT_DEVICE static void apply(const Slopes& slopes, Tile& ds) {
    if constexpr (Features::kTransforms) ds *= slopes;
  }

  // Scores of a span of the tile at hand, of which `use` is what the mask says, and their slopes.
  ATTNJIT_DEVICE void scores(Tile& p, Slopes& slopes, const QTile& q, const KTile& k, int kv_tile,
                             int span, TileUse use) {
    const int first_key = kv_tile * kConfig.block_kv + span_key(span);
    const TileUse band_use = features.use(block, first_key / 32);
    const TileUse tile_use = band_use < use ? band_use : use;
    features.fetch(block, first_key, tile_use);
    p = 0.0f;
    add_scores<kConfig.dtype, kConfig.padded_head_dim()>(p, q, warp_row(), k, span_key(span));
    float scale = kConfig.scale_first ? params.score_scale : 1.0f;
    if constexpr (Features::kTransforms) {
      scale = features.differentiate(block, p, slopes, scale, first_key);
    }
    features.add(block, p, scale, first_key);
    if (tile_use == TileUse::kMasked) features.mask(block, p, first_key);
  }

  // P = exp(S - lse). A bias may be so large that lse has few digits left after the point: scores
  // that hold one are compared with lse before they are scaled to log2 units, as the forward's
  // formulas have it. Other scores save the instruction.
  ATTNJIT_DEVICE void exponentiate(Tile& p, const RowNumbers& lse) const {
    if constexpr (kConfig.scale_first) {
      p.for_each([&](float& score, int m, int, int e) {
        score = ptx::exp2_approx(difference_from_lse(score, lse[m][e / 2]) * kLog2E);
      });
    } else {
      float lse2[kRowTiles][2];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) lse2[m][h] = lse[m][h] * kLog2E;
      }
      p.for_each([&](float& score, int m, int, int e) {
        score = ptx::exp2_approx(fmaf(score, params.exponent_scale, -lse2[m][e / 2]));
      });
    }
  }

  // dS of the span at hand, by scores as they are exponentiated. The sums of dP begin at -delta,
  // which saves its registers meanwhile.
  ATTNJIT_DEVICE void score_gradients(Tile& ds, const Tile& p, const RowNumbers& delta,
                                      const DoutTile& dout, const VTile& v, int span) const {
    ds.for_each([&](float& score, int m, int, int e) { score = -delta[m][e / 2]; });
    add_scores<kConfig.dtype, kConfig.padded_head_dim_v()>(ds, dout, warp_row(), v, span_key(span));
    ds *= p;
  }

  // The thread's eight neighbouring keys in row (m, h), as KeyOrder deals them out.
  ATTNJIT_DEVICE static ptx::Vector16 packed_keys(const Tile& scores, int m, int h) {
    ptx::Vector16 v;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = scores[m][i];
      v.word[i] = ptx::pack<kConfig.dtype>(pair[2 * h], pair[2 * h + 1]);
    }
    return v;
  }
  // Rounds a span and writes it to shared memory, keys in their natural order.
  template <class Target>
  ATTNJIT_DEVICE void store_scores(const Target& tile, const Tile& scores, int span) const {
    const int lane = ptx::lane_index();
    const auto target = cursor(tile, warp_row() + lane / 4, span_key(0) / 8 + (lane & 3));
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ptx::store_shared_16(target.at(16 * m + 8 * h, 4 * span), packed_keys(scores, m, h));
      }
    }
  }
};

}  // namespace attnjit::kernel
