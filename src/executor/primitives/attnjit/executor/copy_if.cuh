#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void copy_async_16_if(bool valid, uint32 shared, const void* global) {
  services->copy_async(shared, global, 16, valid, "copy_async_16_if");
}

}  // namespace attnjit::kernel::ptx
