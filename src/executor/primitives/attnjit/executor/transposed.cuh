#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE FragmentA load_fragment_a_transposed(uint32 address) {
  FragmentA a;
  load_matrices<true>(a.word, address, "load_fragment_a_transposed");
  return a;
}

}  // namespace attnjit::kernel::ptx
