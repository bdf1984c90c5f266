#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/sync.cuh"

namespace attnjit::kernel::ptx {

template <int kLanes>
ATTNJIT_DEVICE float lanes_sum(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += shuffle_xor("lanes_sum", value, distance);
  }
  return value;
}

}  // namespace attnjit::kernel::ptx
