#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE uint32 opaque(uint32 value) { return value; }

}  // namespace attnjit::kernel::ptx
