#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/types.h"

// Counts in global and shared memory. A thread block that has taken a number lets others go
// ahead, so that higher numbers are often first.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE bool has_count(const uint32* address, uint32 count) {
  services->access_global(address, sizeof *address, GlobalAccess::kRead, "has_count");
  return __atomic_load_n(address, __ATOMIC_ACQUIRE) == count;
}
ATTNJIT_DEVICE void await_count(const uint32* address, uint32 count) {
  while (!has_count(address, count)) services->let_blocks_ahead("await_count");
}
ATTNJIT_DEVICE void count_if(bool condition, uint32* address) {
  if (!condition) return;
  services->access_global(address, sizeof *address, GlobalAccess::kAdd, "count_if");
  __atomic_fetch_add(address, 1, __ATOMIC_RELEASE);
}
ATTNJIT_DEVICE uint32 take_count(uint32* address) {
  services->access_global(address, sizeof *address, GlobalAccess::kAdd, "take_count");
  const uint32 before = __atomic_fetch_add(address, 1, __ATOMIC_RELAXED);
  services->let_blocks_ahead("take_count");
  return before;
}
ATTNJIT_DEVICE uint32 add_shared(uint32 address, uint32 value) {
  return services->add_shared(address, value, "add_shared");
}

}  // namespace attnjit::kernel::ptx
