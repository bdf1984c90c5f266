#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

// Whether this lane is the one that its warp elects (PTX ISA, "elect.sync"); warps call it whole.
// The compiler knows that what follows is for one thread, as it does not of lane_index() == 0:
// there ptxas 13.0 wraps each tensor copy in a loop over the lanes.
ATTNJIT_DEVICE bool elect_lane() {
  uint32 elected;
  asm volatile(
      "{\n.reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace attnjit::kernel::ptx
