#pragma once
#include <array>
#include <string>
#include <vector>

#include "executor/clocks.hpp"
#include "executor/threads.hpp"

namespace attnjit::executor {

/// The barriers 1 to 15 of a block. One opens when as many threads have come as each of them says.
class NamedBarriers {
 public:
  NamedBarriers(Threads& threads, Clocks& clocks) : threads_(threads), clocks_(clocks) {}

  /// For a new thread block.
  void reset() { barriers_ = {}; }

  /// The running thread comes to barrier `id` for `count` threads, and if it `waits` goes on when
  /// the barrier opens. Throws Violation for an id that there is not, a count that is no multiple
  /// of a warp, and two counts at one barrier.
  void arrive(int id, int count, bool waits);

  /// For the report of a deadlock: each barrier that is waited for.
  std::string describe() const;

 private:
  struct Barrier {
    int count = 0;
    int arrived = 0;
    Clock arriving;            // of all that have arrived
    std::vector<int> waiting;  // threads
  };

  void check(int id, int count) const;

  Threads& threads_;
  Clocks& clocks_;
  std::array<Barrier, 16> barriers_;
};

}  // namespace attnjit::executor
