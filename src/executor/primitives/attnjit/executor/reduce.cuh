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

ATTNJIT_DEVICE int warp_least(int value) {
  return reduce("warp_least", value, 16, 32, [](int a, int b) { return a < b ? a : b; });
}
ATTNJIT_DEVICE int warp_greatest(int value) {
  return reduce("warp_greatest", value, 16, 32, [](int a, int b) { return a < b ? b : a; });
}

}  // namespace attnjit::kernel::ptx
