#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE int thread_index() { return services->thread_index(); }
ATTNJIT_DEVICE int lane_index() { return thread_index() % 32; }
// A collective of all lanes, since it is a shuffle on the device: a kernel must not call it where
// lanes have diverged.
ATTNJIT_DEVICE int warp_index() {
  const int warp = thread_index() / 32;
  services->warp_collective("warp_index", nullptr, [](void* const*, int) {});
  return warp;
}
ATTNJIT_DEVICE uint32 block_index() { return services->block_index(); }

}  // namespace attnjit::kernel::ptx
