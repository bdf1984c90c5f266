#pragma once
#include "attnjit/backward/dkv_wgmma_d256/shared.cuh"
#include "attnjit/backward/resident_keys.cuh"
#include "attnjit/backward/walk.cuh"
#include "attnjit/ptx/bulk_copy.cuh"
#include "attnjit/ptx/elect.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/tile/clear_rows.cuh"

// The warps of the Hopper backward for head_dim above 128 that do not multiply.
namespace attnjit::kernel {

// Walks over the tiles of queries and loads.
template <DkvWgmmaD256Config kConfig, class Features>
struct DkvD256Producer {
  using Shared = DkvD256Shared<kConfig>;
  using Walk = BackwardWalk<kConfig, Features>;

  const DkvWgmmaParams& params;
  Shared shared;
  Walk walk;
  typename Shared::StageState state = {};

  ATTNJIT_DEVICE DkvD256Producer(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    walk.locate();
    if (!walk.has_keys()) return;
    load_keys();
    typename Walk::Job job = walk.next();
    if (ptx::elect_lane()) {
      Shared::put(shared.job(0), job);
      ptx::barrier_arrive(shared.keys_full());
    }
    for (; job.exists(); state.advance()) {
      const typename Walk::Job next = walk.next();
      const uint32 stage = state.slot();
      ptx::barrier_wait(shared.empty(Stream::kQueries, stage), state.empty());
      if (ptx::elect_lane()) {
        Shared::put(shared.job(state.index + 1), next);
        load_queries(job, stage);
      }
      ptx::barrier_wait(shared.empty(Stream::kOutputs, stage), state.empty());
      if (ptx::elect_lane()) load_outputs(job, stage);
      job = next;
    }
  }

 private:
  ATTNJIT_DEVICE void load_keys() {
    const bool zero_fills = walk.zero_fills_keys(walk.keys_of_head());
    if (!ptx::elect_lane()) return;
    const uint32 full = zero_fills ? shared.keys_landed() : shared.keys_full();
    ptx::barrier_arrive_expecting(full, kConfig.k_bytes() + kConfig.v_bytes());
    load_resident_k<kConfig>(params, walk, shared.k(), full);
    load_resident_v<kConfig>(params, walk, shared.v(), full);
  }
  // Announces a tile of `bytes` and returns the barrier at which it is to land.
  ATTNJIT_DEVICE uint32 announce(Stream stream, const typename Walk::Job& job, uint32 stage,
                                 int bytes) {
    const uint32 full = job.zero_fills ? shared.landed(stream, stage) : shared.full(stream, stage);
    ptx::barrier_arrive_expecting(full, bytes);
    return full;
  }
  ATTNJIT_DEVICE void load_queries(const typename Walk::Job& job, uint32 stage) {
    constexpr Stream kStream = Stream::kQueries;
    const uint32 full = announce(kStream, job, stage,
                                 kConfig.q_bytes() + kConfig.row_bytes() + kConfig.bias_bytes());
    load_slabs<typename Shared::QTile>(shared.tile(kStream, stage), params.q, full, tensor_row(job),
                                       job.head, walk.block.tensor_batch);
    load_rows(shared.rows(kStream, stage), params.base.rows.lse, full, job);
    if constexpr (kConfig.bias_tiles) {
      Block block = walk.block;
      block.head = job.head;
      block.first_query = job.tile * kConfig.block_q;
      walk.features.load_tile(block, walk.kv_tile * kConfig.block_kv, params.bias,
                              shared.bias(stage), full);
    }
  }
  ATTNJIT_DEVICE void load_outputs(const typename Walk::Job& job, uint32 stage) {
    constexpr Stream kStream = Stream::kOutputs;
    const uint32 full = announce(kStream, job, stage, kConfig.dout_bytes() + kConfig.row_bytes());
    load_slabs<typename Shared::DoutTile>(shared.tile(kStream, stage), params.dout, full,
                                          tensor_row(job), job.head, walk.block.tensor_batch);
    load_rows(shared.rows(kStream, stage), params.base.rows.delta, full, job);
  }
  ATTNJIT_DEVICE void load_rows(uint32 target, const float* rows, uint32 full,
                                const typename Walk::Job& job) {
    const int64 first = walk.padded_rows_of(job.head).first + job.tile * kConfig.block_q;
    ptx::bulk_load(target, rows + first, kConfig.row_bytes(), full);
  }
  ATTNJIT_DEVICE int tensor_row(const typename Walk::Job& job) const {
    return walk.block.q_begin + job.tile * kConfig.block_q;
  }
};

// Follows the walk and zero-fills the rows of K and V that no query sees, and the dead rows of Q
// and dO.
template <DkvWgmmaD256Config kConfig, class Features>
struct DkvD256ZeroFill {
  using Shared = DkvD256Shared<kConfig>;

  Shared shared;
  BackwardWalk<kConfig, Features> walk;

  ATTNJIT_DEVICE DkvD256ZeroFill(const DkvWgmmaParams& p, const Features& f) : walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    walk.locate();
    if (!walk.has_keys()) return;
    if (zero_fill_resident_keys<kConfig>(walk, shared.k(), shared.v(), shared.keys_landed(), 0)) {
      publish_rows(shared.keys_full());
    }
    typename Shared::StageState state = {};
    uint32 phases = 0;  // of landed(), which few tiles go through; a bit for each stage
    for (;; state.advance()) {
      const auto job = walk.next();
      if (!job.exists()) return;
      if (!job.zero_fills) continue;
      const uint32 stage = state.slot(), phase = phases >> stage & 1;
      phases ^= 1u << stage;
      const LiveRows live = walk.looked_up.template broadcast<kConfig.block_q>(job.lane);
      zero_fill<Stream::kQueries, typename Shared::QTile>(stage, phase, live);
      zero_fill<Stream::kOutputs, typename Shared::DoutTile>(stage, phase, live);
    }
  }

 private:
  template <Stream kStream, class Tile>
  ATTNJIT_DEVICE void zero_fill(uint32 stage, uint32 phase, const LiveRows& live) {
    ptx::barrier_wait(shared.landed(kStream, stage), phase);
    clear_rows<Tile>(shared.tile(kStream, stage), [&](int row) { return !live.has(row); });
    publish_rows(shared.full(kStream, stage));
  }
};

}  // namespace attnjit::kernel
