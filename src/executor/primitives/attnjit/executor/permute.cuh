#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE uint32 permute_bytes(uint32 low, uint32 high, uint32 digits) {
  const uint64 bytes = low | static_cast<uint64>(high) << 32;
  uint32 result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<uint32>(bytes >> (8 * (digits >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return result;
}

}  // namespace attnjit::kernel::ptx
