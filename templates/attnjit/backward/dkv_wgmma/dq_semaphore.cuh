#pragma once
#include "attnjit/backward/dkv_wgmma/producer.cuh"
#include "attnjit/ptx/count.cuh"

namespace attnjit::kernel {

// The warp of the Hopper backward that orders additions to dq among thread blocks, by a semaphore
// for each tile of queries. A release that other SMs see costs a thread a fifth of a tile's time,
// an acquire a tenth; so the warpgroup of dq waits only for barriers in shared memory:
//
//   this warp           [ acquire i | release i-1 ]        [ acquire i+1 | release i ]
//                                     |       ^                           |      ^
//   those of dq    [ dS K ]           +-[ add i, as soon as i-1 is complete ]   [ add i+1 ...
//
// If a semaphore cannot be acquired yet, the previous one is released before the wait, because
// another thread block may need it first. Waits form no cycle: a thread block waits for lower
// numbers only.
template <DkvWgmmaConfig kConfig, class Features>
struct DqSemaphore {
  using Shared = BackwardShared<kConfig>;
  static constexpr uint32 kCounts = kConfig.block_q / 16;  // of a tile, a lane each

  const DkvWgmmaParams& params;
  Shared shared;
  BackwardWalk<kConfig, Features> walk;
  const uint32 lane = ptx::lane_index();
  typename Shared::SlotState taken = {}, passed = {};  // tiles
  uint32* count =
      nullptr;  // the lane's counter of the previous tile, if other thread blocks wait for it

  ATTNJIT_DEVICE DqSemaphore(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    for (uint32 number = 0; enter_work<kConfig>(shared, walk, number); ++number) {
      for (auto job = walk.next(); job.exists(); job = walk.next()) acquire(job);
      if (!kConfig.loops_over_work()) break;
      shared.leave_work(number);
    }
    release();
  }

 private:
  // Acquires the semaphore of a tile for these keys: all keys before them have added to dq, or the
  // first keys have stored it. KeyWorkTiles says why their thread blocks are running.
  ATTNJIT_DEVICE void acquire(const BackwardJob& job) {
    const uint32 before = walk.order_of(job.tile);
    const int64 row = walk.padded_rows_of(job.head).first + job.tile * kConfig.block_q;
    uint32* const own = params.dq_semaphores + row / 16 + lane % kCounts;
    const uint32 wanted = kConfig.dq_order == DqOrder::kKeys ? before : 1;
    if (before != 0 && !ptx::warp_all(ptx::has_count(own, wanted))) {
      release();
      ptx::await_count(own, wanted);
      ptx::warp_sync();  // all lanes have acquired their counters
    }
    ptx::barrier_arrive_if(lane == 0, shared.dq_acquired(taken.slot()));
    release();
    taken.advance();
    count = kConfig.dq_order == DqOrder::kKeys || before == 0 ? own : nullptr;
  }
  // Releases the semaphore of the previous tile once its sums of dq are complete.
  ATTNJIT_DEVICE void release() {
    if (passed.index == taken.index) return;
    ptx::barrier_wait(shared.dq_complete(passed.slot()), passed.full());
    passed.advance();
    ptx::fence_async_proxy_global();
    ptx::count_if(count != nullptr && lane < kCounts, count);
  }
};

}  // namespace attnjit::kernel
