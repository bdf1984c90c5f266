#pragma once
#include "attnjit/ptx/exchange.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Swaps `second` of a lane with `first` of the lane `distance` further.
ATTNJIT_DEVICE void trade(uint32& first, uint32& second, bool further, int distance) {
  const uint32 received = ptx::exchange(further ? first : second, distance);
  (further ? first : second) = received;
}

// Lane t of a quad holds the columns 2t and 2t + 1 of four groups of 8, a word each: the lanes
// exchange words until each has the group t, 16 bytes of a row.
ATTNJIT_DEVICE void gather_group(uint32 (&word)[4]) {
  const int lane = ptx::lane_index();
  const bool odd = (lane & 1) != 0, high = (lane & 2) != 0;
  trade(word[0], word[1], odd, 1);
  trade(word[2], word[3], odd, 1);
  trade(word[0], word[2], high, 2);
  trade(word[1], word[3], high, 2);
}

}  // namespace attnjit::kernel
