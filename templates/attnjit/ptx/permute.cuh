#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// Byte i of the result is the byte of `low` (0 to 3) or `high` (4 to 7) that hexadecimal digit i of
// `digits` names.
ATTNJIT_DEVICE uint32 permute_bytes(uint32 low, uint32 high, uint32 digits) {
  return __byte_perm(low, high, digits);
}

}  // namespace attnjit::kernel::ptx
