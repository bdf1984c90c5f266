#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void named_barrier_sync(int barrier, int threads) {
  services->named_barrier(barrier, threads, true, "named_barrier_sync");
}
ATTNJIT_DEVICE void named_barrier_arrive(int barrier, int threads) {
  services->named_barrier(barrier, threads, false, "named_barrier_arrive");
}

}  // namespace attnjit::kernel::ptx
