#pragma once
#include "attnjit/ptx/device.cuh"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE float clamp(float x, float limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

}  // namespace attnjit::kernel::ptx
