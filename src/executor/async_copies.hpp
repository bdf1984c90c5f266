#pragma once
#include <cstddef>
#include <deque>
#include <vector>

#include "executor/shared_memory.hpp"

namespace attnjit::executor {

/// The copies that one thread has under way (cp.async), in groups.
class AsyncCopies {
 public:
  /// For a new thread block.
  void reset();
  /// Adds a copy to the open group, which `shared` has begun; zeros where it is not `valid`.
  void add(unsigned shared, const void* global, unsigned bytes, bool valid);
  void commit();
  /// Does copies of `thread` until at most `pending` groups are left.
  void wait(int thread, int pending, SharedMemory& shared);

 private:
  struct Copy {
    unsigned shared;
    const std::byte* global;
    unsigned bytes;
    bool valid;
  };

  std::vector<Copy> open_;                // of no group yet
  std::deque<std::vector<Copy>> groups_;  // oldest first
};

}  // namespace attnjit::executor
