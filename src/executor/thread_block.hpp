#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "attnjit/executor/services.h"
#include "executor/fiber.hpp"
#include "executor/global_memory.hpp"
#include "executor/shared_memory.hpp"

namespace attnjit::executor {

/// A launch: the values that all of its thread blocks share.
struct Launch {
  std::string entry;  ///< of the kernel, for reports
  void (*kernel)(void* const* parameters);
  void* const* parameters;
  unsigned blocks;
  unsigned threads;  ///< per block, whole warps
  unsigned shared_bytes;
};

/// Runs thread blocks one after the other, each thread as a fiber: a thread runs until it has to
/// wait for others. Everything runs on the calling thread; several objects may run side by side.
class ThreadBlock {
 public:
  /// `launch` and `memory` must outlive it.
  ThreadBlock(const Launch& launch, GlobalMemory& memory);

  /// Runs block `index` to its end. Throws Violation, after which the object is of no further use.
  void run(unsigned index);

  /// The functions that kernels call. They act on the block that the calling thread is running.
  static const Services& services();

 private:
  static constexpr int kWarpSize = 32;

  struct Copy {
    unsigned shared;
    const std::byte* global;
    unsigned bytes;
    bool valid;
  };
  enum class State { kReady, kWaiting, kEnded };
  struct Thread {
    std::unique_ptr<Fiber> fiber;
    State state = State::kEnded;
    const char* function = "";             // the primitive it called last
    std::vector<Copy> open;                // copies of no group yet
    std::deque<std::vector<Copy>> groups;  // oldest first
    bool waited = false;                   // for earlier kernels
  };
  // Threads that meet in a collective operation.
  struct Meeting {
    int first = 0;  // member
    std::vector<void*> members;
    int arrived = 0;
    const char* function = "";
  };

  void begin(unsigned index);
  void body(int thread);
  bool run_warp(int warp);
  Thread& self() { return threads_[static_cast<std::size_t>(running_)]; }
  void meet(Meeting& meeting, const char* function, void* member, Operate operate);
  void copy_wait(int pending);
  std::string describe_standstill() const;
  std::string describe(const Meeting& meeting) const;

  const Launch& launch_;
  GlobalMemory& memory_;
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::vector<Meeting> warps_;
  Meeting block_;
  unsigned index_ = 0;
  int running_ = 0;
  std::string violation_;  // of the thread that broke a rule
};

}  // namespace attnjit::executor
