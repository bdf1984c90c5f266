#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// As copy_async_16(), with `valid` as a predicate instead of a size: where it is a bit of a word,
// four instructions less for each copy. The other one is the forward's too, whose kernels stay as
// they are tuned.
ATTNJIT_DEVICE void copy_async_16_if(bool valid, uint32 shared, const void* global) {
  asm volatile(
      "{\n.reg .pred ignore;\n"
      "setp.eq.u32 ignore, %2, 0;\n"
      "cp.async.cg.shared.global [%0], [%1], 16, ignore;\n}" ::"r"(shared),
      "l"(global), "r"(static_cast<uint32>(valid))
      : "memory");
}

}  // namespace attnjit::kernel::ptx
