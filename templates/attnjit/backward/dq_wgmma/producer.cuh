#pragma once
#include "attnjit/backward/dq_wgmma/shared.cuh"
#include "attnjit/backward/query_walk.cuh"
#include "attnjit/ptx/elect.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/tile/clear_rows.cuh"
#include "attnjit/tile/key_order.h"
#include "attnjit/tile/load_slabs.cuh"
#include "attnjit/tile/strided_keys.cuh"
#include "attnjit/tile/team.cuh"

// The warps of the Hopper kernel of dq that do not multiply.
namespace attnjit::kernel {

// The walk of a thread block over its tiles of keys, by a warp.
template <DqWgmmaConfig kConfig, class Features>
struct DqWgmmaWalk : QueryTileWalk<BackwardBlock<kConfig.scores(), Features, WarpTeam>> {
  using Base = QueryTileWalk<BackwardBlock<kConfig.scores(), Features, WarpTeam>>;
  using Base::Base;
  using Base::block, Base::features, Base::keys;

  struct Job : BackwardJob {
    bool zero_fills;  // K and V have rows inside of the tensor, or another sequence's, that no
                      // query of the block sees: whatever is stored there, a NaN included, would
                      // reach dq as 0 * NaN
  };

  ATTNJIT_DEVICE Job next() {
    const auto job = this->next_job();
    if (!job.exists()) return {{BackwardJob::kNone, 0, false}, false};
    const TileUse use = features.use(block, job.tile);
    const bool masks = job.use != TileUse::kPlain || use != TileUse::kPlain;
    const int begin = job.tile * kConfig.block_kv, end = begin + kConfig.block_kv;
    const bool ends = !Features::kPacksSequences && end > block.seqlen_kv;
    const int limit = ends ? block.seqlen_kv : end;
    const bool zero_fills =
        masks && (Features::kPicksKeys || begin < keys.begin || limit > keys.end);
    return {{block.head, job.tile, masks}, zero_fills};
  }
  // Keys past the tensor are zeros already.
  ATTNJIT_DEVICE bool zero_fills_key(int key) const {
    if (!Features::kPacksSequences && key >= block.seqlen_kv) return false;
    return key < keys.begin || key >= keys.end || !features.reads_key(key);
  }
  // Begins the walk; a block without a row that gets a gradient has no keys.
  ATTNJIT_DEVICE void begin() {
    this->locate();
    if (!this->load_live(block.head, this->q_tile_index).any()) this->end_tile = this->next_tile;
  }
};

// Walks over the tiles of keys and loads.
template <DqWgmmaConfig kConfig, class Features>
struct DqWgmmaProducer {
  using Shared = DqWgmmaShared<kConfig>;
  using Walk = DqWgmmaWalk<kConfig, Features>;

  const DqWgmmaParams& params;
  Shared shared;
  Walk walk;

  ATTNJIT_DEVICE DqWgmmaProducer(const DqWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    walk.begin();
    if (!walk.has_queries()) return;
    typename Walk::Job job = walk.next();
    if (ptx::elect_lane()) {
      Shared::put(shared.job(0), job);
      load_queries();
    }
    typename Shared::KeyState k_state = {};
    typename Shared::ValueState v_state = {};
    for (; job.exists(); k_state.advance(), v_state.advance()) {
      const typename Walk::Job next = walk.next();
      const KeySource<> source = {walk.block.kv_begin + job.tile * kConfig.block_kv, walk.kv_head(),
                                  walk.block.tensor_batch};
      walk.features.prefetch(WarpTeam(), walk.block, walk.block.head, walk.q_tile_index, job.tile);
      const uint32 k_stage = k_state.slot(), v_stage = v_state.slot();
      ptx::barrier_wait(shared.k_empty(k_stage), k_state.empty());
      if (ptx::elect_lane()) {
        Shared::put(shared.job(k_state.index + 1), next);
        load<kConfig.padded_head_dim()>(
            shared.k(k_stage), params.k, params.k_tail,
            job.zero_fills ? shared.k_landed(k_stage) : shared.k_full(k_stage), source);
      }
      ptx::barrier_wait(shared.v_empty(v_stage), v_state.empty());
      if (ptx::elect_lane()) {
        load<kConfig.padded_head_dim_v()>(
            shared.v(v_stage), params.v, params.v_tail,
            job.zero_fills ? shared.v_landed(v_stage) : shared.v_full(v_stage), source);
      }
      job = next;
    }
  }

 private:
  ATTNJIT_DEVICE void load_queries() {
    const uint32 full = shared.queries_full();
    ptx::barrier_arrive_expecting(full, kConfig.q_bytes() + kConfig.dout_bytes());
    const Block& block = walk.block;
    const int row = block.q_begin + block.first_row;
    load_slabs<typename Shared::QTile>(shared.q(), params.q, full, row, block.head,
                                       block.tensor_batch);
    load_slabs<typename Shared::DoutTile>(shared.dout(), params.dout, full, row, block.head,
                                          block.tensor_batch);
  }
  template <int kColumns>
  ATTNJIT_DEVICE void load(uint32 tile, const TensorMap& map, const TensorMap& tail, uint32 full,
                           const KeySource<>& source) {
    ptx::barrier_arrive_expecting(full, kConfig.block_kv * kColumns * 2);
    load_strided_keys<kColumns, kConfig.block_kv, Features::kPacksSequences>(
        tile, map, tail, full, source, params.base.seqlen_kv);
  }
};

// Follows the walk and zero-fills the rows of K and V that no query of the block sees.
template <DqWgmmaConfig kConfig, class Features>
struct DqWgmmaZeroFill {
  using Shared = DqWgmmaShared<kConfig>;

  Shared shared;
  DqWgmmaWalk<kConfig, Features> walk;

  ATTNJIT_DEVICE DqWgmmaZeroFill(const DqWgmmaParams& p, const Features& f) : walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    walk.begin();
    typename Shared::KeyState k_state = {};
    typename Shared::ValueState v_state = {};
    uint32 k_phases = 0, v_phases = 0;  // of k_landed() and v_landed(), a bit for each stage
    for (;; k_state.advance(), v_state.advance()) {
      const auto job = walk.next();
      if (!job.exists()) return;
      if (!job.zero_fills) continue;
      LiveRows unread;
#pragma unroll
      for (int i = 0; i < kConfig.block_kv / 32; ++i) {
        const int key = StridedKeyOrder::key(kConfig.block_kv, 32 * i + ptx::lane_index());
        unread.set(i, ptx::warp_ballot(walk.zero_fills_key(job.tile * kConfig.block_kv + key)));
      }
      const uint32 k_stage = k_state.slot(), v_stage = v_state.slot();
      clear<typename Shared::KTile>(shared.k(k_stage), shared.k_landed(k_stage),
                                    shared.k_full(k_stage), k_phases >> k_stage & 1, unread);
      clear<typename Shared::VTile>(shared.v(v_stage), shared.v_landed(v_stage),
                                    shared.v_full(v_stage), v_phases >> v_stage & 1, unread);
      k_phases ^= 1u << k_stage;
      v_phases ^= 1u << v_stage;
    }
  }

 private:
  template <class Tile>
  ATTNJIT_DEVICE static void clear(uint32 tile, uint32 landed, uint32 full, uint32 phase,
                                   const LiveRows& unread) {
    ptx::barrier_wait(landed, phase);
    clear_rows<Tile>(tile, [&](int row) { return unread.has(row); });
    publish_rows(full);
  }
};

}  // namespace attnjit::kernel
