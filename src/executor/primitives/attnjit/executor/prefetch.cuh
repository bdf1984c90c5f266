#pragma once
#include "attnjit/ptx/device.cuh"

// Prefetches, of which the executor checks that they stay inside the tensors.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void prefetch_l2(const void* address) {
  services->access_global(address, 1, executor::GlobalAccess::kReadConst, "prefetch_l2");
}
ATTNJIT_DEVICE void bulk_prefetch_l2(const void* address, int bytes) {
  for (int i = 0; i < bytes; i += 16) {
    services->access_global(static_cast<const unsigned char*>(address) + i, 16,
                            executor::GlobalAccess::kReadConst, "bulk_prefetch_l2");
  }
}

}  // namespace attnjit::kernel::ptx
