#pragma once
#include "attnjit/executor/collective.cuh"
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE uint32 exchange(uint32 value, int distance) {
  struct Lane {
    uint32 value;
    int distance;
    uint32 result;
  } self{value, distance, 0};
  warp_collective("exchange", self, [](Lane*(&lanes)[32]) {
    for (int i = 0; i < 32; ++i) lanes[i]->result = lanes[i ^ lanes[i]->distance]->value;
  });
  return self.result;
}

}  // namespace attnjit::kernel::ptx
