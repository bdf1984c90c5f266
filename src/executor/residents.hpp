#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "executor/thread_block.hpp"

namespace attnjit::executor {

/// The thread blocks that one CPU thread has at work. They begin in the order of their indices, as
/// on a device. Where one waits for others, or lets them go ahead, another one begins, as long as
/// there is room, and then all go on in turn, there and back. So whatever keeps blocks in order has
/// to be in the kernel, and it shows where it is not.
class Residents {
 public:
  /// Up to `most` at a time, each the block that `next` counts to; all must outlive it.
  Residents(const Launch& launch, GlobalMemory& memory, std::atomic<unsigned>& next, int most);

  /// Lets one more begin or, where there is no room for it, all go on once. False if none is left.
  /// Throws Violation where one breaks a rule or, if there is no CPU thread beside this one, where
  /// all wait.
  bool go_on(bool alone);

 private:
  struct Resident {
    std::unique_ptr<ThreadBlock> block;
    bool at_work = false;
  };

  Resident* begin_another();
  /// False where it still waits.
  bool advance(Resident& resident);

  const Launch& launch_;
  GlobalMemory& memory_;
  std::atomic<unsigned>& next_;
  std::vector<Resident> residents_;
  bool backwards_ = true;  // in this round
};

}  // namespace attnjit::executor
