#pragma once
#include "attnjit/backward/dkv_wgmma/producer.cuh"
#include "attnjit/ptx/count.cuh"

namespace attnjit::kernel {

// The warp of the Hopper backward that takes turns with other thread blocks at each tile of
// queries. To count so that other SMs see what was added costs a thread a fifth of a tile's time,
// and to read such a count a tenth; so the warpgroup of dq has barriers in shared memory alone to
// wait for:
//
//   this warp           [ await turn i | pass i-1 ]        [ await turn i+1 | pass i ]
//                                     |       ^                           |      ^
//   those of dq    [ dS K ]           +-[ add i, as soon as i-1 is complete ]   [ add i+1 ...
//
// A turn that has not come is awaited after the one before it has been passed, for another thread
// block may need that first. Waits form no circle: a thread block waits for lower numbers only.
template <DkvWgmmaConfig kConfig, class Features>
struct BackwardTurns {
  using Shared = BackwardShared<kConfig>;
  static constexpr uint32 kCounts = kConfig.block_q / 16;  // of a tile, a lane each

  const DkvWgmmaParams& params;
  Shared shared;
  BackwardWalk<kConfig, Features> walk;
  const uint32 lane = ptx::lane_index();
  typename Shared::SlotTurn taken = {}, passed = {};  // tiles
  uint32* count = nullptr;  // the lane's, of the tile before, if others wait for that

  ATTNJIT_DEVICE BackwardTurns(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    for (uint32 number = 0; enter_place<kConfig>(shared, walk, number); ++number) {
      for (auto job = walk.next(); job.exists(); job = walk.next()) take(job);
      if (!kConfig.has_places()) break;
      shared.leave_place(number);
    }
    pass();
  }

 private:
  // Takes the turn of these keys at a tile: all keys before them have added to dq, or the first
  // have stored. See BackwardPlaces for why those are at work.
  ATTNJIT_DEVICE void take(const BackwardJob& job) {
    const uint32 before = walk.turn_of(job.tile);
    const int64 row = walk.padded_rows_of(job.head).first + job.tile * kConfig.block_q;
    uint32* const own = params.turns + row / 16 + lane % kCounts;
    const uint32 wanted = kConfig.dq_order == DqOrder::kKeys ? before : 1;
    if (before != 0 && !ptx::warp_all(ptx::has_count(own, wanted))) {
      pass();
      ptx::await_count(own, wanted);
      ptx::warp_sync();  // all lanes have seen theirs
    }
    ptx::barrier_arrive_if(lane == 0, shared.turn_taken(taken.slot()));
    pass();
    taken.advance();
    count = kConfig.dq_order == DqOrder::kKeys || before == 0 ? own : nullptr;
  }
  // Passes the turn of the tile before, once dq's sums of it are complete.
  ATTNJIT_DEVICE void pass() {
    if (passed.turn == taken.turn) return;
    ptx::barrier_wait(shared.turn_complete(passed.slot()), passed.full());
    passed.advance();
    ptx::fence_async_proxy_global();
    ptx::count_if(count != nullptr && lane < kCounts, count);
  }
};

}  // namespace attnjit::kernel
