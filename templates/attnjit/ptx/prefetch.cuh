#pragma once
#include "attnjit/ptx/device.cuh"

namespace attnjit::kernel::ptx {

// Asks for the line of global memory at `address` to be brought to the L2 cache.
ATTNJIT_DEVICE void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}
// The same of `bytes`; they and the address are multiples of 16.
ATTNJIT_DEVICE void bulk_prefetch_l2(const void* address, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
}

}  // namespace attnjit::kernel::ptx
