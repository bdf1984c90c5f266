#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// A read of shared memory if `condition` holds, else 0; by predicate, see barrier_arrive_if().
ATTNJIT_DEVICE uint32 load_shared_4_if(bool condition, uint32 address) {
  uint32 value;
  asm volatile(
      "{\n.reg .pred loads;\n"
      "setp.ne.u32 loads, %2, 0;\n"
      "mov.u32 %0, 0;\n"
      "@loads ld.shared.u32 %0, [%1];\n}"
      : "=r"(value)
      : "r"(address), "r"(static_cast<uint32>(condition))
      : "memory");
  return value;
}

}  // namespace attnjit::kernel::ptx
