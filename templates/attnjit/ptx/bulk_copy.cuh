#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Copies of bytes that follow one another by the copy engine (PTX ISA, "cp.async.bulk"). Addresses
// and sizes are multiples of 16.
namespace attnjit::kernel::ptx {

// Starts a load. Its bytes count towards the phase of `barrier` that has announced them.
ATTNJIT_DEVICE void bulk_load(uint32 shared, const void* global, int bytes, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

// Starts a store if `condition` holds, as part of the thread's open group of stores
// (ptx/tensor_copy.cuh).
ATTNJIT_DEVICE void bulk_store_if(bool condition, void* global, uint32 shared, int bytes) {
  asm volatile(
      "{\n.reg .pred stores;\n"
      "setp.ne.u32 stores, %3, 0;\n"
      "@stores cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "}" ::"l"(global),
      "r"(shared), "r"(bytes), "r"(static_cast<uint32>(condition))
      : "memory");
}

// Starts to add floats to global memory in the same way. Other threads may add to the same floats.
ATTNJIT_DEVICE void bulk_add_if(bool condition, float* global, uint32 shared, int bytes) {
  asm volatile(
      "{\n.reg .pred adds;\n"
      "setp.ne.u32 adds, %3, 0;\n"
      "@adds cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
      "}" ::"l"(global),
      "r"(shared), "r"(bytes), "r"(static_cast<uint32>(condition))
      : "memory");
}

}  // namespace attnjit::kernel::ptx
