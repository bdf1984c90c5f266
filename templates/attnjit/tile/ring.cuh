#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// A turn in a ring of kSlots buffers. Each buffer has a barrier that tells when it is full and one
// that tells when it is empty; both go through a phase per round.
template <int kSlots>
struct RingTurn {
  uint32 turn = 0;
  ATTNJIT_DEVICE uint32 slot() const { return turn % kSlots; }
  // Of the phase in which the buffer becomes full, and in which it becomes empty for this turn.
  ATTNJIT_DEVICE uint32 full() const { return turn / kSlots & 1; }
  ATTNJIT_DEVICE uint32 empty() const { return full() ^ 1; }
  ATTNJIT_DEVICE void advance() { ++turn; }
};

}  // namespace attnjit::kernel
