#pragma once
#include "attnjit/backward/dq_wgmma/shared.cuh"
#include "attnjit/backward/query_walk.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/opaque.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/score/kept_keys.cuh"
#include "attnjit/score/score_weights.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/slab_products.cuh"
#include "attnjit/tile/store_rows.cuh"
#include "attnjit/tile/team.cuh"

namespace attnjit::kernel {

// A warpgroup of the Hopper kernel of dq that has 64 of the block's queries and their dq. In a
// step,
//
//     S  = Q K^T         P  = exp(S - lse)
//     dP = dO V^T        dS = P (dP - delta)         dq += dS K
//
// where dS is an operand as it lies in registers. dq of a step still runs while S and dP of the
// next one are issued, and P is computed during dP:
//
//     tensor cores  [ dq of the step before | S | dP ]       [ dq | S, dP of the next ]
//     other units                              [ P ] [ dS ]
template <DqWgmmaConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct DqWgmmaConsumer : QueryTileWalk<BackwardBlock<kShape, Features, WarpTeam>> {
  using Base = QueryTileWalk<BackwardBlock<kShape, Features, WarpTeam>>;
  using Base::block, Base::features, Base::params;
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kGroups = kConfig.block_kv / 8;  // of 8 keys
  using Shared = DqWgmmaShared<kConfig>;
  using Scores = Fragments<1, kGroups>;

  Shared shared;
  const int warp_row;  // of the warp's 16 queries in the block's
  const int lane = ptx::lane_index();
  const uint32 group_rows;  // bytes from a tile to its rows of the warpgroup
  uint32 index = 0;         // in both rings
  float lse[2], delta[2];   // of the thread's rows; lse in log2 units unless scale_first
  // Always the same registers: others would have to be written during products.
  Scores scores, dp;
  uint32 ds[kGroups][2];  // rounded
  ScoreWeights<Features, kDType, kGroups, false> weights;
  Fragments<1, kConfig.query_columns() / 8> dq;

  ATTNJIT_DEVICE DqWgmmaConsumer(const DqWgmmaParams& p, const Features& f, int group)
      : Base(p.base, f),
        warp_row(64 * group + 16 * (ptx::warp_index() & 3)),
        group_rows(group * Shared::QTile::rows_on(64)) {}

  ATTNJIT_DEVICE void run() {
    this->locate();
    if (!this->has_queries()) return;
    block.thread_row = block.first_row + warp_row + ScoreShape(kShape).lane_row(lane);
    read_rows();
    scores = 0.0f;
    dp = 0.0f;
    dq = 0.0f;
    ptx::barrier_wait(shared.queries_full(), 0);
    BackwardJob job = Shared::take(shared.job(0));
    if (job.exists()) {
      begin();
      // The very first products are waited for: ptxas would otherwise copy sums that still change.
      ptx::wgmma_wait<0>();
      hold(scores, dp);
      while (true) {
        const BackwardJob next = Shared::take(shared.job(index + 1));
        compute(job);
        end();
        if (!next.exists()) break;
        job = next;
        begin();
      }
      ptx::wgmma_wait<0>();
      hold(dq, ds);
    }
    write();
  }

 private:
  ATTNJIT_DEVICE typename Shared::KeyState k_state() const { return {index}; }
  ATTNJIT_DEVICE typename Shared::ValueState v_state() const { return {index}; }

  // Issues S and dP of a job. Descriptors are computed from a value that ptxas does not know: it
  // would otherwise keep those of all columns of a tile through the loop.
  ATTNJIT_DEVICE void begin() {
    const uint32 k_stage = k_state().slot(), v_stage = v_state().slot();
    ptx::barrier_wait(shared.k_full(k_stage), k_state().full());
    hold(scores);
    ptx::wgmma_fence();
    mma_abt<kDType>(scores, Shared::QTile::k_major(ptx::opaque(shared.q() + group_rows)),
                    Shared::KTile::k_major(ptx::opaque(shared.k(k_stage))));
    ptx::wgmma_commit();
    ptx::barrier_wait(shared.v_full(v_stage), v_state().full());
    hold(dp);
    ptx::wgmma_fence();
    mma_abt<kDType>(dp, Shared::DoutTile::k_major(ptx::opaque(shared.dout() + group_rows)),
                    Shared::VTile::k_major(ptx::opaque(shared.v(v_stage))));
    ptx::wgmma_commit();
  }
  // Computes dS of a job, once dq of the previous job, S and dP have ended.
  ATTNJIT_DEVICE void compute(const BackwardJob& job) {
    const uint32 before = (index - 1) % Shared::kKeyStages;
    ptx::wgmma_wait<1>();
    hold(dq, ds);
    hold(scores);
    ptx::barrier_arrive_if(lane == 0 && index != 0, shared.k_empty(before));
    const int first_key = job.tile * kConfig.block_kv;
    const float scale = kConfig.scale_first ? params.score_scale : 1.0f;
    const float left = weights.transform(features, block, scores, scale, first_key);
    features.add(block, scores, left, first_key);
    if (job.masks) features.template drop<KeptKeys<kShape>>(block, scores, first_key);
    exponentiate();
    ptx::wgmma_wait<0>();
    hold(dp);
    ptx::barrier_arrive_if(lane == 0, shared.v_empty(v_state().slot()));
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const auto of = [&](int e) { return scores[0][n][e] * (dp[0][n][e] - delta[h]); };
        ds[n][h] = ptx::pack<kDType>(of(2 * h), of(2 * h + 1));
      }
    }
  }
  // Issues dq of a job.
  ATTNJIT_DEVICE void end() {
    const auto k = Shared::KTile::mn_major(ptx::opaque(shared.k(k_state().slot())));
    hold(dq, ds);
    ptx::wgmma_fence();
    mma_ab<kDType>(dq, ds, k);
    ptx::wgmma_commit();
    ++index;
  }

  // P, in place of the scores, times their slopes. A bias may be so large that lse has few digits
  // left after the point: with a bias, lse is subtracted before the scores are scaled.
  ATTNJIT_DEVICE void exponentiate() {
    scores.for_each([&](float& score, int, int n, int e) {
      if constexpr (kConfig.scale_first) {
        score = ptx::exp2_approx((score - lse[e / 2]) * kLog2E);
        if constexpr (Features::kTransforms) score *= weights.slope(n, e);
      } else {
        score = ptx::exp2_approx(fmaf(score, params.exponent_scale, -lse[e / 2]));
      }
    });
  }
  // Reads the preprocess kernel's results for the thread's rows. Rows past the end are dead.
  ATTNJIT_DEVICE void read_rows() {
    const auto [first, count] = this->padded_rows_of(block.head);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = block.thread_row + 8 * h;
      const bool exists = row < count;
      lse[h] = exists ? ptx::load_global(params.rows.lse + first + row) : ptx::infinity();
      delta[h] = exists ? ptx::load_global(params.rows.delta + first + row) : 0.0f;
      if constexpr (!kConfig.scale_first) lse[h] *= kLog2E;
    }
  }
  // Writes dq of the warp's queries, zeros where they are dead: a NaN in a dead row of Q or dO has
  // not left its row.
  ATTNJIT_DEVICE void write() {
    const LiveRows rows = this->load_live(block.head, this->q_tile_index);
    const int first = block.thread_row - block.first_row;
    const bool live[2] = {rows.has(first), rows.has(first + 8)};
    dq.for_each([&](float& x, int, int, int e) { x = live[e / 2] ? x : 0.0f; });
    uint16* const head =
        this->query_rows(static_cast<uint16*>(params.dq), params.dq_strides, block.head);
    store_rows<kDType>(dq, params.scale, head, params.dq_strides.row, block.first_row + warp_row,
                       block.seqlen_q, kConfig.head_dim);
  }
};

}  // namespace attnjit::kernel
