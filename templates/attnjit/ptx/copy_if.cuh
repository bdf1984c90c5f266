#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// Copies as copy_async_16() does, with `valid` as a predicate instead of a size: four instructions less
// per copy where it is a bit of a word. The forward keeps the other, with which its tiles were tuned.
ATTNJIT_DEVICE void copy_async_16_if(bool valid, uint32 shared, const void* global) {
  asm volatile(
      "{\n.reg .pred ignore;\n"
      "setp.eq.u32 ignore, %2, 0;\n"
      "cp.async.cg.shared.global [%0], [%1], 16, ignore;\n}" ::"r"(shared),
      "l"(global), "r"(static_cast<uint32>(valid))
      : "memory");
}

}  // namespace attnjit::kernel::ptx
