#pragma once
#include "attnjit/ptx/device.cuh"

namespace attnjit::kernel::ptx {

// Waits for all lanes of the warp; then operate(lanes) runs once, where lanes[i] points at what
// lane i passed: the operands, and room for its result.
template <class Lane, class Operation>
ATTNJIT_DEVICE void warp_collective(const char* function, Lane& lane, Operation) {
  services->warp_collective(function, &lane, [](void* const* members, int) {
    Lane* lanes[32];
    for (int i = 0; i < 32; ++i) lanes[i] = static_cast<Lane*>(members[i]);
    Operation{}(lanes);
  });
}

}  // namespace attnjit::kernel::ptx
