#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// The A operand of a tile that lies transposed in shared memory: lane l supplies the address of
// depth l % 8 + 8 (l / 16), rows 8 (l / 8 % 2) and the next seven.
ATTNJIT_DEVICE FragmentA load_fragment_a_transposed(uint32 address) {
  FragmentA a;
  load_matrices_transposed(a.word, address);
  return a;
}

}  // namespace attnjit::kernel::ptx
