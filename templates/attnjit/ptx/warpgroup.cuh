#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// A warpgroup is four warps, the first of them a multiple of four.
namespace attnjit::kernel::ptx {

// Uniform over a warp.
ATTNJIT_DEVICE int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 7), 0);
}

// Give up registers for others, or wait for them: each thread of the warpgroup has kCount from here
// on, a multiple of 8 from 24 to 240 (PTX ISA, "setmaxnreg").
template <int kCount>
ATTNJIT_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
ATTNJIT_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// A barrier of the calling warp; orders its accesses to memory.
ATTNJIT_DEVICE void warp_sync() { __syncwarp(); }

}  // namespace attnjit::kernel::ptx
