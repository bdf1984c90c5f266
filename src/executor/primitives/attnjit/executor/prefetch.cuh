#pragma once
#include "attnjit/ptx/device.cuh"

// Prefetches, of which the executor checks that they stay inside the tensors.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void prefetch_l2(const void* address) {
  services->access_global(address, 1, executor::GlobalAccess::kReadConst, "prefetch_l2");
}

}  // namespace attnjit::kernel::ptx
