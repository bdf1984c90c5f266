#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void add_to(float* address, float value) {
  auto* const word = reinterpret_cast<uint32*>(address);
  uint32 before = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &before, as_bits(as_float(before) + value), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

ATTNJIT_DEVICE void add_global(float* address, float value) {
  services->access_global(address, sizeof(float), GlobalAccess::kAdd, "add_global");
  add_to(address, value);
}
ATTNJIT_DEVICE void add_global_if(bool condition, float* address, float value) {
  if (condition) add_global(address, value);
}
ATTNJIT_DEVICE void add_global_4(float* address, const float (&value)[4]) {
  services->access_global(address, sizeof(value), GlobalAccess::kAdd, "add_global_4");
  for (int i = 0; i < 4; ++i) add_to(address + i, value[i]);
}

// The order of elements on devices that have vector additions.
ATTNJIT_DEVICE int fragment_slot(int lane, int element) { return 4 * lane + element; }
ATTNJIT_DEVICE void add_fragment(float* fragment, const float (&value)[4]) {
  add_global_4(fragment + fragment_slot(lane_index(), 0), value);
}
ATTNJIT_DEVICE void load_fragment(float (&value)[4], const float* fragment) {
  for (int i = 0; i < 4; ++i) {
    value[i] = load_global_written(fragment + fragment_slot(lane_index(), i));
  }
}

}  // namespace attnjit::kernel::ptx
