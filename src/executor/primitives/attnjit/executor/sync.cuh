#pragma once
#include "attnjit/executor/collective.cuh"
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// A barrier of the block that counts for how many threads `value` holds; returns the count.
ATTNJIT_DEVICE int block_count(const char* function, bool value) {
  struct Thread {
    bool value;
    int count;
  } thread{value, 0};
  services->block_barrier(function, &thread, [](void* const* members, int count) {
    int total = 0;
    for (int i = 0; i < count; ++i) total += static_cast<Thread*>(members[i])->value;
    for (int i = 0; i < count; ++i) static_cast<Thread*>(members[i])->count = total;
  });
  return thread.count;
}
ATTNJIT_DEVICE void block_sync() {
  services->block_barrier("block_sync", nullptr, [](void* const*, int) {});
}
ATTNJIT_DEVICE bool block_any(bool value) { return block_count("block_any", value) != 0; }

// Kernels run one after the other here, so the permission to overlap does nothing. The wait is
// recorded: reading an earlier kernel's result without it is a violation.
ATTNJIT_DEVICE void let_next_kernel_begin() {}
ATTNJIT_DEVICE void wait_for_previous_kernel() { services->wait_for_previous_kernel(); }

// Bit i of the result is lane i's `value`.
ATTNJIT_DEVICE uint32 ballot(const char* function, bool value) {
  struct Lane {
    bool value;
    uint32 result;
  } self{value, 0};
  warp_collective(function, self, [](Lane*(&lanes)[32]) {
    uint32 bits = 0;
    for (int i = 0; i < 32; ++i) bits |= static_cast<uint32>(lanes[i]->value) << i;
    for (Lane* lane : lanes) lane->result = bits;
  });
  return self.result;
}
ATTNJIT_DEVICE uint32 warp_ballot(bool value) { return ballot("warp_ballot", value); }
ATTNJIT_DEVICE bool warp_all(bool value) { return ballot("warp_all", value) == 0xffffffffu; }

// The value of the lane whose index differs in the bits of `distance`.
template <class T>
ATTNJIT_DEVICE T shuffle_xor(const char* function, T value, int distance) {
  struct Lane {
    T value;
    int distance;
    T result;
  } self{value, distance, T{}};
  warp_collective(function, self, [](Lane*(&lanes)[32]) {
    for (int i = 0; i < 32; ++i) lanes[i]->result = lanes[i ^ lanes[i]->distance]->value;
  });
  return self.result;
}

// Reductions over `lanes` neighbouring lanes, in the device's order.
template <class T, class Combine>
ATTNJIT_DEVICE T reduce(const char* function, T value, int first, int lanes, Combine combine) {
  // A quad goes up from distance 1, a warp down from 16.
  for (int d = first; d > 0 && d < lanes; d = first == 1 ? 2 * d : d / 2) {
    value = combine(value, shuffle_xor(function, value, d));
  }
  return value;
}
ATTNJIT_DEVICE float quad_max(float value) {
  return reduce("quad_max", value, 1, 4, [](float a, float b) { return fmaxf(a, b); });
}
ATTNJIT_DEVICE float quad_sum(float value) {
  return reduce("quad_sum", value, 1, 4, [](float a, float b) { return a + b; });
}
ATTNJIT_DEVICE float warp_max(float value) {
  return reduce("warp_max", value, 16, 32, [](float a, float b) { return fmaxf(a, b); });
}
ATTNJIT_DEVICE float warp_sum(float value) {
  return reduce("warp_sum", value, 16, 32, [](float a, float b) { return a + b; });
}

}  // namespace attnjit::kernel::ptx
