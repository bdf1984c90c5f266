#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

template <class T>
ATTNJIT_DEVICE T opaque(T value) {
  return value;
}

}  // namespace attnjit::kernel::ptx
