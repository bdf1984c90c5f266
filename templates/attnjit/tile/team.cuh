#pragma once
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel {

// Threads that call a function together: the kThreads of a thread block.
template <int kThreads>
struct BlockTeam {
  static constexpr int kSize = kThreads;
  ATTNJIT_DEVICE int index() const { return ptx::thread_index(); }
  // A barrier; orders the team's accesses to memory.
  ATTNJIT_DEVICE void sync() const { ptx::block_sync(); }
  // Whether `value` holds for any thread; a barrier too.
  ATTNJIT_DEVICE bool any(bool value) const { return ptx::block_any(value); }
};

// A thread by itself.
struct SingleThread {
  static constexpr int kSize = 1;
  ATTNJIT_DEVICE int index() const { return 0; }
  ATTNJIT_DEVICE bool any(bool value) const { return value; }
};

// A whole warp.
struct WarpTeam {
  static constexpr int kSize = 32;
  ATTNJIT_DEVICE int index() const { return ptx::lane_index(); }
  ATTNJIT_DEVICE bool any(bool value) const { return ptx::warp_ballot(value) != 0; }
};

}  // namespace attnjit::kernel
