#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// Barrier of the whole block; orders its shared and global accesses.
ATTNJIT_DEVICE void block_sync() { __syncthreads(); }
// Barrier of the whole block that also tells whether `value` holds for any thread.
ATTNJIT_DEVICE bool block_any(bool value) { return __syncthreads_or(value) != 0; }

// Lets a kernel that overlaps this one begin; what this one still writes, it waits for.
ATTNJIT_DEVICE void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the kernels ahead have ended and their writes can be read.
ATTNJIT_DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Bit i of the result is lane i's `value`.
ATTNJIT_DEVICE uint32 warp_ballot(bool value) { return __ballot_sync(0xffffffffu, value); }

// Whether `value` holds for all lanes.
ATTNJIT_DEVICE bool warp_all(bool value) { return __all_sync(0xffffffffu, value) != 0; }

// Reductions over the four lanes that hold one row of an accumulator fragment.
ATTNJIT_DEVICE float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
ATTNJIT_DEVICE float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Reductions over all lanes; every lane receives the result.
ATTNJIT_DEVICE float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}
ATTNJIT_DEVICE float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

}  // namespace attnjit::kernel::ptx
