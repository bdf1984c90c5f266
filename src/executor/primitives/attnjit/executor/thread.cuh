#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE int thread_index() { return services->thread_index(); }
ATTNJIT_DEVICE int lane_index() { return thread_index() % 32; }
ATTNJIT_DEVICE int warp_index() { return thread_index() / 32; }
ATTNJIT_DEVICE uint32 block_index() { return services->block_index(); }

}  // namespace attnjit::kernel::ptx
