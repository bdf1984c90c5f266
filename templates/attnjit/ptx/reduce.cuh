#pragma once
#include "attnjit/ptx/device.cuh"

namespace attnjit::kernel::ptx {

// The sum over groups of kLanes neighbouring lanes, a power of two; each lane receives its group's.
template <int kLanes>
ATTNJIT_DEVICE float lanes_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

// The least and the greatest of all lanes; every lane receives it.
ATTNJIT_DEVICE int warp_least(int value) { return __reduce_min_sync(0xffffffffu, value); }
ATTNJIT_DEVICE int warp_greatest(int value) { return __reduce_max_sync(0xffffffffu, value); }

}  // namespace attnjit::kernel::ptx
