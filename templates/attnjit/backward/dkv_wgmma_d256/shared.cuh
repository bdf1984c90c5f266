#pragma once
#include "attnjit/backward/dkv_wgmma_d256/config.h"
#include "attnjit/backward/job.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/pipeline_state.cuh"
#include "attnjit/tile/slab_tile.cuh"

// Shared memory of the Hopper backward for head_dim above 128: buffers, barriers and jobs.
namespace attnjit::kernel {

// Tensors of which a tile is loaded for each job: Q, with lse and the operands of features, and dO,
// with delta. Each has its own ring and barriers.
enum class Stream : int { kQueries = 0, kOutputs = 1 };

// Addresses in shared memory.
template <DkvWgmmaD256Config kConfig>
struct DkvD256Shared : BackwardJobs<> {
  static constexpr int kStages = kConfig.num_stages;
  using StageState = PipelineState<kStages>;
  using KTile = SlabTile<kConfig.block_kv, kConfig.depth()>;
  using VTile = SlabTile<kConfig.block_kv, kConfig.depth_v()>;
  using QTile = SlabTile<kConfig.block_q, kConfig.depth()>;
  using DoutTile = SlabTile<kConfig.block_q, kConfig.depth_v()>;

  uint32 base = ptx::shared_base();

  // Bytes of a tile of a stream, and of the rows that come with it.
  ATTNJIT_CONSTEXPR static int tile_bytes(Stream s) {
    return s == Stream::kQueries ? kConfig.q_bytes() : kConfig.dout_bytes();
  }

  ATTNJIT_DEVICE uint32 k() const { return base; }
  ATTNJIT_DEVICE uint32 v() const { return base + kConfig.k_bytes(); }
  ATTNJIT_DEVICE uint32 tile(Stream s, uint32 stage) const {
    const int offset = s == Stream::kQueries ? kConfig.q_offset() : kConfig.dout_offset();
    return base + offset + stage * tile_bytes(s);
  }
  // lse of the queries of Q, delta of those of dO.
  ATTNJIT_DEVICE uint32 rows(Stream s, uint32 stage) const {
    return base + kConfig.rows_offset() +
           (static_cast<int>(s) * kStages + stage) * kConfig.row_bytes();
  }
  // P, rounded, in the layout of the registers that compute it. Its slot belongs to a stage of Q.
  ATTNJIT_DEVICE uint32 p(uint32 stage) const {
    return base + kConfig.p_offset() + stage * kConfig.p_bytes();
  }
  // The rounding errors of P, if the config keeps_residuals.
  ATTNJIT_DEVICE uint32 residuals(uint32 stage) const {
    return p(stage) + kConfig.block_q * kConfig.block_kv * 2;
  }
  // The `i`-th 16 bytes of the thread in P or the residuals.
  ATTNJIT_DEVICE static uint32 of_thread(uint32 place, int i) {
    return place + 16 * (ptx::thread_index() & 127) + i * 128 * 16;
  }
  ATTNJIT_DEVICE uint32 bias(uint32 stage) const {
    return base + kConfig.bias_offset() + stage * kConfig.bias_bytes();
  }

  // K and V have landed and still have rows to be zero-filled; they and the first job are complete.
  // The same for a tile of a stream, which comes with the next job.
  ATTNJIT_DEVICE uint32 keys_landed() const { return barrier(0); }
  ATTNJIT_DEVICE uint32 keys_full() const { return barrier(1); }
  ATTNJIT_DEVICE uint32 landed(Stream s, uint32 stage) const { return barrier(s, 0, stage); }
  ATTNJIT_DEVICE uint32 full(Stream s, uint32 stage) const { return barrier(s, 1, stage); }
  ATTNJIT_DEVICE uint32 empty(Stream s, uint32 stage) const { return barrier(s, 2, stage); }

  // One thread initialises the barriers. Warps of both warpgroups arrive where buffers become
  // empty.
  ATTNJIT_DEVICE void init_barriers() const {
    ptx::barrier_init(keys_landed(), 1);
    ptx::barrier_init(keys_full(), 2);
    for (const Stream s : {Stream::kQueries, Stream::kOutputs}) {
      for (int i = 0; i < kStages; ++i) {
        ptx::barrier_init(landed(s, i), 1);
        ptx::barrier_init(full(s, i), 1);
        ptx::barrier_init(empty(s, i), 8);
      }
    }
    ptx::barrier_init_fence();
  }

  // Named barriers: P of a stage is complete. The warpgroup of dv arrives, the warpgroup of dk
  // waits.
  static constexpr int kPThreads = 256;
  ATTNJIT_DEVICE static int p_full(uint32 stage) { return 1 + static_cast<int>(stage); }

  // The address of job `index` of the walk. The first comes with K, each other one with the
  // previous tiles, so that no warp waits for it.
  ATTNJIT_DEVICE uint32 job(uint32 index) const {
    return base + kConfig.control_offset() + kJobsOffset + 8 * (index % kJobs);
  }

 private:
  static constexpr int kJobs = 8;
  static_assert(kStages + 2 < kJobs);
  static constexpr int kJobsOffset = 8 * (2 + 6 * kStages);
  static_assert(kJobsOffset + 8 * kJobs <= DkvWgmmaD256Config::kControlBytes);

  ATTNJIT_DEVICE uint32 barrier(uint32 index) const {
    return base + kConfig.control_offset() + 8 * index;
  }
  ATTNJIT_DEVICE uint32 barrier(Stream s, int kind, uint32 stage) const {
    return barrier(2 + (static_cast<int>(s) * 3 + kind) * kStages + stage);
  }
};

}  // namespace attnjit::kernel
