#pragma once
#include "attnjit/ptx/device.cuh"

namespace attnjit::kernel::ptx {

// Asks for the line of global memory at `address` to be brought to the L2 cache.
ATTNJIT_DEVICE void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace attnjit::kernel::ptx
