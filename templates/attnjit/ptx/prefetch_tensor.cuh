#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// Asks for a box of a tensor to be brought to the L2 cache; see tensor_load().
ATTNJIT_DEVICE void prefetch_tensor(const TensorMap& map, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(&map),
      "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

}  // namespace attnjit::kernel::ptx
