#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Barriers 1 to 15 of a thread block, for some of its warps (PTX ISA, "bar"). A barrier opens when
// `threads` threads have come to it, by whichever of the two; whole warps do. It orders what those
// that arrived did before against what those that waited do after.
namespace attnjit::kernel::ptx {

// Waits.
ATTNJIT_DEVICE void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// Goes on at once.
ATTNJIT_DEVICE void named_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace attnjit::kernel::ptx
