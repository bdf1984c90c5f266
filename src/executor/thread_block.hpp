#pragma once
#include <string>
#include <vector>

#include "attnjit/executor/services.h"
#include "executor/async_copies.hpp"
#include "executor/clocks.hpp"
#include "executor/global_memory.hpp"
#include "executor/matrix_products.hpp"
#include "executor/mbarriers.hpp"
#include "executor/meeting.hpp"
#include "executor/named_barriers.hpp"
#include "executor/register_pool.hpp"
#include "executor/shared_memory.hpp"
#include "executor/tensor_copies.hpp"
#include "executor/threads.hpp"

namespace attnjit::executor {

/// A launch: the values that all of its thread blocks share.
struct Launch {
  std::string entry;  ///< of the kernel, for reports
  void (*kernel)(void* const* parameters);
  void* const* parameters;
  unsigned blocks;
  unsigned threads;  ///< per block, whole warps
  unsigned shared_bytes;
  unsigned min_blocks = 1;  ///< that share the registers of an SM
};

/// Runs thread blocks one after the other, each thread as a fiber. Everything runs on the calling
/// thread; several objects may run side by side, or take turns on one thread.
class ThreadBlock {
 public:
  /// `launch` and `memory` must outlive it.
  ThreadBlock(const Launch& launch, GlobalMemory& memory);

  enum class Progress {
    kEnded,  ///< all threads have
    kMoved,  ///< some did something; now they wait for other thread blocks, or let them go ahead
    kWaits,  ///< they still do
  };

  /// Block `index` is next. The one before must have ended.
  void begin(unsigned index);
  /// Runs it until it ends, waits for others or lets them go ahead. Throws Violation, after which
  /// the object is of no further use.
  Progress go_on();

  /// The functions that kernels call. They act on the block that the calling thread is running.
  static const Services& services();

 private:
  static constexpr int kWarpgroupSize = MatrixProducts::kThreads;

  Progress run_threads();
  std::string describe_standstill() const;

  // Of the thread that runs.
  int self() const { return threads_.running(); }
  Meeting& warp() { return warps_[self() / Threads::kWarpSize]; }
  int warpgroup() const { return self() / kWarpgroupSize; }

  // The block that the calling thread is running: primitives are plain functions and find it here.
  static thread_local ThreadBlock* current_;

  const Launch& launch_;
  GlobalMemory& memory_;
  Threads threads_;
  Clocks clocks_;
  SharedMemory shared_;
  std::vector<Meeting> warps_;
  std::vector<Meeting> warpgroups_;
  Meeting block_;
  NamedBarriers named_barriers_;
  Mbarriers mbarriers_;
  TensorCopies tensor_copies_;
  RegisterPool registers_;
  std::vector<AsyncCopies> copies_;       // of each thread
  std::vector<bool> waited_;              // each thread, for earlier kernels
  std::vector<MatrixProducts> products_;  // of each warpgroup
  unsigned index_ = 0;
};

}  // namespace attnjit::executor
