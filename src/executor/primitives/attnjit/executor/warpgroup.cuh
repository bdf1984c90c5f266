#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// A collective of all lanes, as warp_index() is.
ATTNJIT_DEVICE int warpgroup_index() {
  const int warpgroup = services->thread_index() / 128;
  services->warp_collective("warpgroup_index", nullptr, [](void* const*, int) {});
  return warpgroup;
}

template <int kCount>
ATTNJIT_DEVICE void give_registers() {
  services->give_registers(kCount);
}
template <int kCount>
ATTNJIT_DEVICE void take_registers() {
  services->take_registers(kCount);
}

ATTNJIT_DEVICE void warp_sync() { services->warp_barrier("warp_sync"); }

}  // namespace attnjit::kernel::ptx
