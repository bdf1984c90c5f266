#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE uint32 load_shared_4_if(bool condition, uint32 address) {
  uint32 value = 0;
  if (condition) {
    services->load_shared(address, &value, sizeof value, executor::Reader::kThread,
                          "load_shared_4_if");
  }
  return value;
}

}  // namespace attnjit::kernel::ptx
