#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE bool elect_lane() {
  services->warp_collective("elect_lane", nullptr, [](void* const*, int) {});
  return lane_index() == 0;
}

}  // namespace attnjit::kernel::ptx
