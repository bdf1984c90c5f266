#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Counts in global memory by which thread blocks keep an order or share out work, and in shared
// memory.
namespace attnjit::kernel::ptx {

// Whether `*address` is `count`. Acquires: if so, everything that the counting threads wrote before
// they counted is visible.
ATTNJIT_DEVICE bool has_count(const uint32* address, uint32 count) {
  uint32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value == count;
}
// Waits until it is.
ATTNJIT_DEVICE void await_count(const uint32* address, uint32 count) {
  while (!has_count(address, count)) {
  }
}

// Counts on, by predicate, see barrier_arrive_if().
ATTNJIT_DEVICE void count_if(bool condition, uint32* address) {
  asm volatile(
      "{\n.reg .pred counts;\n"
      "setp.ne.u32 counts, %1, 0;\n"
      "@counts red.release.gpu.global.add.u32 [%0], 1;\n}" ::"l"(address),
      "r"(static_cast<uint32>(condition))
      : "memory");
}

// Counts on and returns the count before. Relaxed: it orders no other access.
ATTNJIT_DEVICE uint32 take_count(uint32* address) {
  uint32 before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(address)
               : "memory");
  return before;
}
// Adds to a word of shared memory and returns what it was before. Relaxed as well.
ATTNJIT_DEVICE uint32 add_shared(uint32 address, uint32 value) {
  uint32 before;
  asm volatile("atom.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(address), "r"(value)
               : "memory");
  return before;
}

}  // namespace attnjit::kernel::ptx
