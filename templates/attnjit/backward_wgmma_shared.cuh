#pragma once
#include "attnjit/backward_job.cuh"
#include "attnjit/backward_wgmma_config.h"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/named_barrier.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/ring.cuh"

// Memory that the warps of the Hopper backward share: buffers, barriers, and the jobs that travel
// from the walk to those that multiply.
namespace attnjit::kernel {

// Addresses in shared memory. Tiles are slabs of 64 columns, a line of 128 bytes per row, whose
// 16-byte chunk c lies at c ^ (row & 7): the 128-byte swizzle of the copy engine and of wgmma.
template <BackwardWgmmaConfig kConfig>
struct BackwardShared : BackwardJobs {
  static constexpr int kStages = kConfig.num_stages;
  static constexpr int kSlots = kConfig.kSlots;
  using StageTurn = RingTurn<kStages>;
  using SlotTurn = RingTurn<kSlots>;

  uint32 base = ptx::shared_base();

  ATTNJIT_DEVICE uint32 k() const { return base; }
  ATTNJIT_DEVICE uint32 v() const { return base + kConfig.k_bytes(); }
  ATTNJIT_DEVICE uint32 q(uint32 stage) const {
    return base + kConfig.stages_offset() + stage * (kConfig.q_bytes() + kConfig.dout_bytes());
  }
  ATTNJIT_DEVICE uint32 dout(uint32 stage) const { return q(stage) + kConfig.q_bytes(); }
  ATTNJIT_DEVICE OperandTiles operands(uint32 stage) const {
    return {base + kConfig.bias_offset() + stage * kConfig.bias_bytes(),
            base + kConfig.mask_offset() + stage * kConfig.mask_bytes()};
  }
  ATTNJIT_DEVICE uint32 rows(uint32 stage) const {
    return base + kConfig.rows_offset() + stage * kConfig.rows_bytes();
  }
  ATTNJIT_DEVICE uint32 lse(uint32 stage) const { return rows(stage) + kConfig.piece_bytes(); }
  // dS as [query][key].
  ATTNJIT_DEVICE uint32 ds(uint32 slot) const {
    return base + kConfig.ds_offset() + slot * kConfig.ds_bytes();
  }
  ATTNJIT_DEVICE uint32 sums(uint32 place) const {
    return base + kConfig.sums_offset() + place * kConfig.kSumBytes;
  }

  // K and V have landed and still have rows to be set to zero; they and the first job are complete.
  // Q, dO and their rows likewise, with the job after.
  ATTNJIT_DEVICE uint32 keys_landed() const { return barrier(0); }
  ATTNJIT_DEVICE uint32 keys_full() const { return barrier(1); }
  ATTNJIT_DEVICE uint32 landed(uint32 stage) const { return barrier(2 + stage); }
  ATTNJIT_DEVICE uint32 full(uint32 stage) const { return barrier(2 + kStages + stage); }
  ATTNJIT_DEVICE uint32 empty(uint32 stage) const { return barrier(2 + 2 * kStages + stage); }
  // dq has been computed from a tile of dS.
  ATTNJIT_DEVICE uint32 ds_empty(uint32 slot) const { return barrier(2 + 3 * kStages + slot); }
  // K and V make way for those of the next place.
  ATTNJIT_DEVICE uint32 keys_empty() const { return barrier(2 + 3 * kStages + kSlots); }

  // Sums of dq have come back for a warp.
  ATTNJIT_DEVICE uint32 sums_full(int warp) const {
    return barrier(3 + 3 * kStages + kSlots + warp);
  }

  // One thread makes the barriers. Warps arrive where buffers become empty: those that have keys,
  // and those of dq.
  ATTNJIT_DEVICE void init_barriers() const {
    ptx::barrier_init(keys_landed(), 1);
    ptx::barrier_init(keys_full(), 2);
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(landed(i), 1);
      ptx::barrier_init(full(i), 1);
      ptx::barrier_init(empty(i), 8);
    }
    for (int i = 0; i < kSlots; ++i) ptx::barrier_init(ds_empty(i), 4);
    if (kConfig.whole_planes) {
      ptx::barrier_init(keys_empty(), 12);
      for (int i = 0; i < 4; ++i) ptx::barrier_init(sums_full(i), 1);
    }
    ptx::barrier_init_fence();
  }

  // Named barriers: a tile of dS is complete, which the threads that have keys come to and those of
  // dq wait for; and turns of warpgroup 0 or 1 of those that have keys.
  static constexpr int kTurnThreads = 256, kDsThreads = 384;
  ATTNJIT_DEVICE static int turn(int warpgroup) { return 1 + warpgroup; }
  ATTNJIT_DEVICE static int ds_full(uint32 slot) { return 3 + static_cast<int>(slot); }

  // The place of job `index` of the walk. The first travels with K, each of the others with the
  // tile before, so that nobody waits for it. A place is used again when those that have keys are
  // kStages jobs behind, and those of dq kSlots more.
  ATTNJIT_DEVICE uint32 job(uint32 index) const {
    return base + kConfig.control_offset() + kJobsOffset + 8 * (index % kJobs);
  }

 private:
  static constexpr int kJobs = 8;
  static_assert(kStages + kSlots < kJobs);
  static constexpr int kJobsOffset =
      8 * (2 + 3 * kStages + kSlots + (kConfig.whole_planes ? 5 : 0));
  static_assert(kJobsOffset + 8 * kJobs <= BackwardWgmmaConfig::kControlBytes);

  ATTNJIT_DEVICE uint32 barrier(uint32 index) const {
    return base + kConfig.control_offset() + 8 * index;
  }
};

}  // namespace attnjit::kernel
