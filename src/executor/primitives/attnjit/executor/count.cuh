#pragma once
#include <atomic>
#include <thread>

#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/types.h"

// Counts in global and shared memory. Thread blocks begin in the order of their indices and run to
// their ends, so that those who are waited for do not need this thread.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void await_count(const uint32* address, uint32 count) {
  services->access_global(address, sizeof *address, GlobalAccess::kRead, "await_count");
  const std::atomic_ref value(*const_cast<uint32*>(address));
  while (value.load(std::memory_order_acquire) != count) std::this_thread::yield();
}
ATTNJIT_DEVICE void count_if(bool condition, uint32* address) {
  if (!condition) return;
  services->access_global(address, sizeof *address, GlobalAccess::kAdd, "count_if");
  std::atomic_ref(*address).fetch_add(1, std::memory_order_release);
}
ATTNJIT_DEVICE uint32 take_count(uint32* address) {
  services->access_global(address, sizeof *address, GlobalAccess::kAdd, "take_count");
  return std::atomic_ref(*address).fetch_add(1, std::memory_order_relaxed);
}
ATTNJIT_DEVICE uint32 add_shared(uint32 address, uint32 value) {
  return services->add_shared(address, value, "add_shared");
}

}  // namespace attnjit::kernel::ptx
