#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// `value`, of which the compiler must not know that it is the same as last time: what follows from
// it is computed anew in each turn of a loop instead of being kept in registers through all of it.
template <class T>
ATTNJIT_DEVICE T opaque(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace attnjit::kernel::ptx
