#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// The value that `lane` holds; lanes may ask for different ones.
ATTNJIT_DEVICE uint32 warp_broadcast(uint32 value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// The sum over the eight lanes that hold the same columns of an accumulator fragment.
ATTNJIT_DEVICE float column_sum(float value) {
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

}  // namespace attnjit::kernel::ptx
