#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/types.h"

// Stores by predicate, for loops around wgmma: see barrier_arrive_if().
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void store_shared_16_if(bool condition, uint32 address, Vector16 v) {
  asm volatile(
      "{\n.reg .pred stores;\n"
      "setp.ne.u32 stores, %5, 0;\n"
      "@stores st.shared.v4.u32 [%0], {%1, %2, %3, %4};\n}" ::"r"(address),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]),
      "r"(static_cast<uint32>(condition))
      : "memory");
}
ATTNJIT_DEVICE void store_global_if(bool condition, float* address, float value) {
  asm volatile(
      "{\n.reg .pred stores;\n"
      "setp.ne.u32 stores, %2, 0;\n"
      "@stores st.global.f32 [%0], %1;\n}" ::"l"(address),
      "f"(value), "r"(static_cast<uint32>(condition))
      : "memory");
}
ATTNJIT_DEVICE void store_global_if(bool condition, Vector8* address, Vector8 v) {
  asm volatile(
      "{\n.reg .pred stores;\n"
      "setp.ne.u32 stores, %3, 0;\n"
      "@stores st.global.v2.u32 [%0], {%1, %2};\n}" ::"l"(address),
      "r"(v.word[0]), "r"(v.word[1]), "r"(static_cast<uint32>(condition))
      : "memory");
}
ATTNJIT_DEVICE void store_global_if(bool condition, Vector16* address, Vector16 v) {
  asm volatile(
      "{\n.reg .pred stores;\n"
      "setp.ne.u32 stores, %5, 0;\n"
      "@stores st.global.v4.u32 [%0], {%1, %2, %3, %4};\n}" ::"l"(address),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]),
      "r"(static_cast<uint32>(condition))
      : "memory");
}

}  // namespace attnjit::kernel::ptx
