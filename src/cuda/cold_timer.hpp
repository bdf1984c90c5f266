#pragma once
#include <deque>
#include <functional>

#include "cuda/memory.hpp"
#include "cuda/stream.hpp"

namespace attnjit::cuda {

/// Times work on the device as a cold caller meets it: none of its inputs are in L2.
///
/// Before each launch a buffer several times the size of L2 is filled. That takes the GPU some
/// 60 microseconds, and meanwhile the host enqueues the launch; so the time between the two events
/// round the launch holds none of the host's, as long as enqueuing is faster than the fill.
class ColdTimer {
 public:
  /// Allocates the buffer (256 MiB or 4 times the L2, whichever is more) in the current context.
  /// Throws Error(kNoDevice) when no context is current, Error(kCuda) when memory does not suffice.
  explicit ColdTimer(const Driver& driver);

  /// The median time in milliseconds of `count` launches, `count` > 0. Each call of `enqueue` is
  /// one launch: it enqueues work on `stream` and does not wait. Compile and warm up beforehand.
  /// Waits for the work. Throws Error(kInternal) for a bad `count`, and what `enqueue` throws.
  float median_ms(CUstream stream, int count, const std::function<void()>& enqueue);

 private:
  struct Lap {
    explicit Lap(const Driver& driver) : start(driver), end(driver) {}
    Event start, end;
  };

  const Driver& driver_;
  DeviceBuffer flush_;
  std::deque<Lap> laps_;  // kept for later calls; events do not move
};

}  // namespace attnjit::cuda
