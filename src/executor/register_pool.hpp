#pragma once
#include <string>
#include <vector>

#include "executor/threads.hpp"

namespace attnjit::executor {

/// The registers of a block, which warpgroups give and take (setmaxnreg). All functions are called
/// by the last thread of a warpgroup to come, and throw Violation for a count that is none, or that
/// goes the other way.
class RegisterPool {
 public:
  static constexpr int kThreads = 128;  // of a warpgroup

  /// Of one of `min_blocks` thread blocks that share the registers of an SM.
  RegisterPool(Threads& threads, unsigned min_blocks);

  /// For a new thread block: each thread has what the launch gave it.
  void reset();

  void give(int warpgroup, int count);
  /// The calling thread waits where too few are left.
  void take(int warpgroup, int count);

  /// For the report of a deadlock: each warpgroup that waits.
  std::string describe() const;

 private:
  struct Taker {
    int warpgroup;
    int count;
    int thread;
  };

  void check(int warpgroup, int count, bool gives) const;
  bool can_take(int warpgroup, int count) const;

  Threads& threads_;
  const int launched_;       // a thread's, when the block begins
  std::vector<int> counts_;  // a thread's, of each warpgroup
  int left_ = 0;             // of all, in registers of a thread
  std::vector<Taker> waiting_;
};

}  // namespace attnjit::executor
