#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void store_shared_16_if(bool condition, uint32 address, Vector16 v) {
  if (condition) services->store_shared(address, &v, sizeof v, "store_shared_16_if");
}
ATTNJIT_DEVICE void store_global_if(bool condition, float* address, float value) {
  if (condition) write_global(address, value, "store_global_if");
}
ATTNJIT_DEVICE void store_global_if(bool condition, Vector8* address, Vector8 v) {
  if (condition) write_global(address, v, "store_global_if");
}
ATTNJIT_DEVICE void store_global_if(bool condition, Vector16* address, Vector16 v) {
  if (condition) write_global(address, v, "store_global_if");
}

}  // namespace attnjit::kernel::ptx
