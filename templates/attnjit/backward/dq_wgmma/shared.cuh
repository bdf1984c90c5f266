#pragma once
#include "attnjit/backward/dq_wgmma/config.h"
#include "attnjit/backward/job.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/tile/pipeline_state.cuh"
#include "attnjit/tile/slab_tile.cuh"

namespace attnjit::kernel {

// Shared memory of the Hopper kernel of dq. A job's tile is a tile of keys.
template <DqWgmmaConfig kConfig>
struct DqWgmmaShared : BackwardJobs<> {
  static constexpr int kKeyStages = kConfig.k_stages, kValueStages = kConfig.v_stages;
  using KeyState = PipelineState<kKeyStages>;
  using ValueState = PipelineState<kValueStages>;
  using QTile = SlabTile<kConfig.block_q, kConfig.depth()>;
  using DoutTile = SlabTile<kConfig.block_q, kConfig.depth_v()>;
  using KTile = SlabTile<kConfig.block_kv, kConfig.depth()>;
  using VTile = SlabTile<kConfig.block_kv, kConfig.depth_v()>;

  uint32 base = ptx::shared_base();

  ATTNJIT_DEVICE uint32 q() const { return base; }
  ATTNJIT_DEVICE uint32 dout() const { return base + kConfig.q_bytes(); }
  ATTNJIT_DEVICE uint32 k(uint32 stage) const {
    return base + kConfig.k_offset() + stage * kConfig.k_bytes();
  }
  ATTNJIT_DEVICE uint32 v(uint32 stage) const {
    return base + kConfig.v_offset() + stage * kConfig.v_bytes();
  }

  // Q, dO and the first job are complete. A tile of K, which comes with the next job, or of V has
  // landed and still has rows to be zero-filled; is complete; has been used.
  ATTNJIT_DEVICE uint32 queries_full() const { return barrier(0); }
  ATTNJIT_DEVICE uint32 k_landed(uint32 stage) const { return barrier(1 + 3 * stage); }
  ATTNJIT_DEVICE uint32 k_full(uint32 stage) const { return barrier(2 + 3 * stage); }
  ATTNJIT_DEVICE uint32 k_empty(uint32 stage) const { return barrier(3 + 3 * stage); }
  ATTNJIT_DEVICE uint32 v_landed(uint32 stage) const { return k_landed(kKeyStages + stage); }
  ATTNJIT_DEVICE uint32 v_full(uint32 stage) const { return k_full(kKeyStages + stage); }
  ATTNJIT_DEVICE uint32 v_empty(uint32 stage) const { return k_empty(kKeyStages + stage); }

  // One thread initialises the barriers. Warps that multiply arrive where buffers become empty.
  ATTNJIT_DEVICE void init_barriers() const {
    ptx::barrier_init(queries_full(), 1);
    for (int i = 0; i < kKeyStages + kValueStages; ++i) {
      ptx::barrier_init(k_landed(i), 1);
      ptx::barrier_init(k_full(i), 1);
      ptx::barrier_init(k_empty(i), 8);
    }
    ptx::barrier_init_fence();
  }

  // The address of job `index` of the walk. The first comes with Q, each other one with K of the
  // previous tile, so that no warp waits for it.
  ATTNJIT_DEVICE uint32 job(uint32 index) const {
    return base + kConfig.control_offset() + kJobsOffset + 8 * (index % kJobs);
  }

 private:
  static constexpr int kJobs = 8;
  static_assert(kKeyStages + 2 < kJobs);
  static constexpr int kJobsOffset = 8 * (1 + 3 * (kKeyStages + kValueStages));
  static_assert(kJobsOffset + 8 * kJobs <= DqWgmmaConfig::kControlBytes);

  ATTNJIT_DEVICE uint32 barrier(uint32 index) const {
    return base + kConfig.control_offset() + 8 * index;
  }
};

}  // namespace attnjit::kernel
