#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// A box never leaves its tensor, so that nothing but the map is to be checked.
ATTNJIT_DEVICE void prefetch_tensor(const TensorMap& map, int, int, int, int) {
  services->tensor_prefetch(&map, 4);
}

}  // namespace attnjit::kernel::ptx
