#pragma once
#include "attnjit/backward/dkv_wgmma/config.h"
#include "attnjit/backward/dkv_wgmma/work_tiles.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/named_barrier.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/pipeline_state.cuh"
#include "attnjit/tile/slab_tile.cuh"

// Shared memory of the Hopper backward: buffers, barriers, and the jobs that the walk sends to the
// warps that multiply.
namespace attnjit::kernel {

// Addresses in shared memory.
template <DkvWgmmaConfig kConfig>
struct BackwardShared : BackwardJobs<(kConfig.key_parts > 1)> {
  static constexpr int kStages = kConfig.num_stages;
  static constexpr int kSlots = kConfig.num_slots();
  // Rings of tiles of dS: one of both warpgroups, or one for each part of the keys.
  static constexpr int kRings = kConfig.key_parts;
  using StageState = PipelineState<kStages>;
  using SlotState = PipelineState<kSlots>;
  using KTile = SlabTile<kConfig.block_kv, kConfig.depth()>;
  using VTile = SlabTile<kConfig.block_kv, kConfig.depth_v()>;
  using QTile = SlabTile<kConfig.block_q, kConfig.depth()>;
  using DoutTile = SlabTile<kConfig.block_q, kConfig.depth_v()>;
  using DsTile = SlabTile<kConfig.block_q, kConfig.block_kv>;  // as [query][key]

  uint32 base = ptx::shared_base();

  // K of work tile `number`.
  ATTNJIT_DEVICE uint32 k(uint32 number) const {
    return base + number % kConfig.k_buffers() * kConfig.k_bytes();
  }
  ATTNJIT_DEVICE uint32 v() const { return base + kConfig.k_buffers() * kConfig.k_bytes(); }
  ATTNJIT_DEVICE uint32 q(uint32 stage) const {
    return base + kConfig.stages_offset() + stage * (kConfig.q_bytes() + kConfig.dout_bytes());
  }
  ATTNJIT_DEVICE uint32 dout(uint32 stage) const { return q(stage) + kConfig.q_bytes(); }
  ATTNJIT_DEVICE uint32 bias(uint32 stage) const {
    return base + kConfig.bias_offset() + stage * kConfig.bias_bytes();
  }
  ATTNJIT_DEVICE uint32 rows(uint32 stage) const {
    return base + kConfig.rows_offset() + stage * kConfig.rows_bytes();
  }
  ATTNJIT_DEVICE uint32 lse(uint32 stage) const { return rows(stage) + kConfig.bf16x3_bytes(); }
  ATTNJIT_DEVICE uint32 ds(uint32 slot) const {
    return base + kConfig.ds_offset() + slot * kConfig.ds_bytes();
  }
  ATTNJIT_DEVICE uint32 sums(uint32 buffer) const {
    return base + kConfig.sums_offset() + buffer * kConfig.kSumBytes;
  }

  // K and V have landed and still have rows to be zero-filled; they are complete; the last dP has
  // read V. The same for Q, dO and their rows, which come with the next job.
  ATTNJIT_DEVICE uint32 keys_landed() const { return barrier(0); }
  ATTNJIT_DEVICE uint32 k_full(uint32 number) const { return barrier(1 + (number & 1)); }
  ATTNJIT_DEVICE uint32 v_full() const { return barrier(3); }
  ATTNJIT_DEVICE uint32 v_empty() const { return barrier(4); }
  ATTNJIT_DEVICE uint32 landed(uint32 stage) const { return barrier(kStageBarriers + stage); }
  ATTNJIT_DEVICE uint32 full(uint32 stage) const {
    return barrier(kStageBarriers + kStages + stage);
  }
  ATTNJIT_DEVICE uint32 empty(uint32 stage) const {
    return barrier(kStageBarriers + 2 * kStages + stage);
  }
  // dq has been computed from a tile of dS.
  ATTNJIT_DEVICE uint32 ds_empty(uint32 slot, int ring = 0) const {
    return barrier(kStageBarriers + 3 * kStages + kSlots * ring + slot);
  }
  // A work tile is published; all warps have left it. There are two of each, because some warps are
  // a work tile ahead of others.
  ATTNJIT_DEVICE uint32 work_full(uint32 number) const { return barrier(5 + (number & 1)); }
  ATTNJIT_DEVICE uint32 work_left(uint32 number) const { return barrier(7 + (number & 1)); }
  ATTNJIT_DEVICE static uint32 phase(uint32 number) { return number >> 1 & 1; }

  // Sums of dq have been loaded for a warp.
  ATTNJIT_DEVICE uint32 sums_full(int warp) const { return barrier(kDqBarriers + warp); }
  // These keys may add to dq of a tile; their additions are complete.
  ATTNJIT_DEVICE uint32 dq_acquired(uint32 slot) const { return barrier(kDqBarriers + slot); }
  ATTNJIT_DEVICE uint32 dq_complete(uint32 slot) const {
    return barrier(kDqBarriers + kSlots + slot);
  }

  // One thread initialises the barriers. Warps arrive where buffers become empty: the warps that
  // have keys, those of dq, the warp that zero-fills rows and, if `has_helper`, warp 2.
  ATTNJIT_DEVICE void init_barriers(bool has_helper) const {
    ptx::barrier_init(keys_landed(), 1);
    ptx::barrier_init(v_full(), 1);
    ptx::barrier_init(v_empty(), 8);
    for (int i = 0; i < 2; ++i) {
      ptx::barrier_init(k_full(i), 1);
      ptx::barrier_init(work_full(i), 1);
      ptx::barrier_init(work_left(i), has_helper ? 15 : 14);
    }
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(landed(i), 1);
      ptx::barrier_init(full(i), 1);
      ptx::barrier_init(empty(i), 8);
    }
    for (int i = 0; i < kRings * kSlots; ++i) ptx::barrier_init(ds_empty(i), 4);
    if (kConfig.owns_kv_head) {
      for (int i = 0; i < 4; ++i) ptx::barrier_init(sums_full(i), 1);
    }
    for (int i = 0; kConfig.orders_dq() && i < kSlots; ++i) {
      ptx::barrier_init(dq_acquired(i), 1);
      ptx::barrier_init(dq_complete(i), 4);
    }
    ptx::barrier_init_fence();
  }

  // Named barriers. A tile of dS is complete: threads that have keys arrive, threads of dq wait.
  // Scheduler barriers: of the two warpgroups that have keys.
  static constexpr int kSchedulerThreads = 256, kDsThreads = 128 + 256 / kRings;
  ATTNJIT_DEVICE static int scheduler_barrier(int warpgroup) { return 1 + warpgroup; }
  ATTNJIT_DEVICE static int ds_full(uint32 slot, int ring = 0) {
    return 3 + kSlots * ring + static_cast<int>(slot);
  }

  // The address of job `index` of the walk. It comes with the previous tile, so that no warp waits
  // for it. Its memory is reused when warps that have keys are kStages jobs behind, and warps of dq
  // kSlots more of each ring. The first job comes with its work tile.
  ATTNJIT_DEVICE uint32 job(uint32 index) const {
    return base + kConfig.control_offset() + kJobsOffset + 8 * (index % kJobs);
  }

  // Publishes work tile `number` of the thread block to all warps; one thread calls it.
  ATTNJIT_DEVICE void put_work(uint32 number, const KeyWorkTile& work) const {
    const uint32 address = work_address(number);
    ptx::store_shared_4(address, work.at.plane);
    ptx::store_shared_4(address + 4, work.at.tile);
    this->put(address + 8, work.first);
    ptx::barrier_arrive(work_full(number));
  }
  // Waits for work tile `number`; all lanes of a warp call it.
  ATTNJIT_DEVICE KeyWorkTile next_work(uint32 number) const {
    ptx::barrier_wait(work_full(number), phase(number));
    const uint32 address = work_address(number);
    const bool reads = ptx::lane_index() == 0;
    const uint32 plane = ptx::warp_broadcast(ptx::load_shared_4_if(reads, address), 0);
    const uint32 tile = ptx::warp_broadcast(ptx::load_shared_4_if(reads, address + 4), 0);
    return {{plane, tile}, this->take(address + 8)};
  }
  // A warp has left work tile `number`.
  ATTNJIT_DEVICE void leave_work(uint32 number) const {
    ptx::barrier_arrive_if(ptx::lane_index() == 0, work_left(number));
  }
  // Waits until all warps have left the work tile that lies so many before `number`, if there is
  // one.
  ATTNJIT_DEVICE void await_left(uint32 number, uint32 before) const {
    if (number < before) return;
    ptx::barrier_wait(work_left(number - before), phase(number - before));
  }

 private:
  ATTNJIT_DEVICE uint32 work_address(uint32 number) const {
    return base + kConfig.control_offset() + kWorkOffset + 16 * (number & 1);
  }
  static constexpr int kJobs = 8;
  static_assert(kStages + kRings * kSlots < kJobs);
  static constexpr int kStageBarriers = 9;
  static constexpr int kDqBarriers = kStageBarriers + 3 * kStages + kRings * kSlots;
  static constexpr int kJobsOffset = 8 * (kDqBarriers + (kConfig.owns_kv_head  ? 4
                                                         : kConfig.orders_dq() ? 2 * kSlots
                                                                               : 0));
  static constexpr int kWorkOffset = kJobsOffset + 8 * kJobs;
  static_assert(kWorkOffset + 2 * 16 <= DkvWgmmaConfig::kControlBytes);

  ATTNJIT_DEVICE uint32 barrier(uint32 index) const {
    return base + kConfig.control_offset() + 8 * index;
  }
};

}  // namespace attnjit::kernel
