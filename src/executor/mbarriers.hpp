#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/clocks.hpp"
#include "executor/shared_memory.hpp"
#include "executor/threads.hpp"

namespace attnjit::executor {

/// The mbarriers of a block. All functions but describe() and land() are called for the running
/// thread, and throw Violation for
///   - a barrier that was not made, or that the thread cannot know to be made,
///   - more arrivals than a phase has room for,
///   - a phase whose arrivals have come, and more bytes than they announced.
class Mbarriers {
 public:
  Mbarriers(Threads& threads, Clocks& clocks, SharedMemory& shared)
      : threads_(threads), clocks_(clocks), shared_(shared), fences_(threads.count()) {}

  /// For a new thread block.
  void reset();

  void init(unsigned address, int arrivals);
  void init_fence() { fences_.add(threads_.running(), clocks_); }
  /// Announces `bytes` for the phase, and arrives.
  void arrive(unsigned address, int bytes);
  /// Waits for the end of the phase of parity `parity`.
  void wait(unsigned address, std::uint32_t parity);
  /// Throws unless the thread may use the barrier.
  void check(unsigned address) { find(address); }

  /// `bytes` have landed at `to` for the phase that the barrier is in.
  void land(unsigned address, unsigned to, std::span<const std::byte> bytes);

  /// For the report of a deadlock: each barrier that is waited for, and what its phase lacks.
  std::string describe() const;

 private:
  struct Barrier {
    unsigned address;
    int maker;  // thread
    std::uint32_t made;
    int agent;  // of the copies that land
    int arrivals;
    std::uint32_t phase = 0;
    int arrived = 0;
    std::int64_t announced = 0;  // bytes, less those that have landed
    Clock arriving;              // of all that have arrived
    Clock ended;                 // of those that had when the last phase ended
    std::vector<int> waiting;    // threads
  };

  Barrier& find(unsigned address);
  void advance(Barrier& barrier);
  void pass(const Barrier& barrier, int thread);

  Threads& threads_;
  Clocks& clocks_;
  SharedMemory& shared_;
  Fences fences_;                         // after making barriers
  std::map<unsigned, Barrier> barriers_;  // by address
};

}  // namespace attnjit::executor
