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

}  // namespace attnjit::kernel::ptx
