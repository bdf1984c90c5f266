#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Copies of bytes by the copy engine.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void bulk_load(uint32 shared, const void* global, int bytes, uint32 barrier) {
  services->bulk_load(shared, global, bytes, barrier);
}
ATTNJIT_DEVICE void bulk_store_if(bool condition, void* global, uint32 shared, int bytes) {
  if (condition) services->bulk_store(global, shared, bytes);
}
ATTNJIT_DEVICE void bulk_add_if(bool condition, float* global, uint32 shared, int bytes) {
  if (condition) services->bulk_add(global, shared, bytes);
}

}  // namespace attnjit::kernel::ptx
