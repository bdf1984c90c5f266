#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

// Additions to fp32 sums in global memory that other thread blocks add to as well.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void add_global(float* address, float value) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
// By predicate, see barrier_arrive_if().
ATTNJIT_DEVICE void add_global_if(bool condition, float* address, float value) {
  asm volatile(
      "{\n.reg .pred adds;\n"
      "setp.ne.u32 adds, %2, 0;\n"
      "@adds red.global.add.f32 [%0], %1;\n}" ::"l"(address),
      "f"(value), "r"(static_cast<uint32>(condition))
      : "memory");
}

// Four neighbours; `address` is a multiple of 16 bytes.
ATTNJIT_DEVICE void add_global_4(float* address, const float (&value)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value[0]),
               "f"(value[1]), "f"(value[2]), "f"(value[3])
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) add_global(address + i, value[i]);
#endif
}

// An accumulator fragment of 16 rows by 8 columns in 128 floats, so that a warp adds or reads whole
// lines: four neighbours per lane where one instruction takes them, else lane by lane.
#if __CUDA_ARCH__ >= 900
ATTNJIT_DEVICE int fragment_slot(int lane, int element) { return 4 * lane + element; }
#else
ATTNJIT_DEVICE int fragment_slot(int lane, int element) { return 32 * element + lane; }
#endif

ATTNJIT_DEVICE void add_fragment(float* fragment, const float (&value)[4]) {
#if __CUDA_ARCH__ >= 900
  add_global_4(fragment + fragment_slot(lane_index(), 0), value);
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) add_global(fragment + fragment_slot(lane_index(), i), value[i]);
#endif
}

// The lane's part of a fragment that kernels ahead of this one have added up.
ATTNJIT_DEVICE void load_fragment(float (&value)[4], const float* fragment) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    value[i] = load_global_written(fragment + fragment_slot(lane_index(), i));
  }
}

}  // namespace attnjit::kernel::ptx
