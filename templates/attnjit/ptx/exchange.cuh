#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// The value of the lane whose index differs in the bits of `distance`.
ATTNJIT_DEVICE uint32 exchange(uint32 value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}

}  // namespace attnjit::kernel::ptx
