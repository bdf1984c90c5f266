#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// A box never leaves its tensor, so that there is nothing to check.
ATTNJIT_DEVICE void prefetch_tensor(const TensorMap&, int, int, int, int) {}

}  // namespace attnjit::kernel::ptx
