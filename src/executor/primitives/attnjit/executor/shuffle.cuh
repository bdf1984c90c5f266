#pragma once
#include "attnjit/executor/collective.cuh"
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE uint32 warp_broadcast(uint32 value, int lane) {
  struct Lane {
    uint32 value;
    int source;
    uint32 result;
  } self{value, lane, 0};
  warp_collective("warp_broadcast", self, [](Lane*(&lanes)[32]) {
    for (Lane* l : lanes) l->result = lanes[l->source]->value;
  });
  return self.result;
}

ATTNJIT_DEVICE float column_sum(float value) {
  for (int distance = 4; distance < 32; distance *= 2) {
    value += shuffle_xor("column_sum", value, distance);
  }
  return value;
}

}  // namespace attnjit::kernel::ptx
