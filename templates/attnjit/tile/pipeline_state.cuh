#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The state of a warp in a ring of kSlots buffers, as CUTLASS's PipelineState: the buffers that it
// has used. Each buffer has a barrier that tells when it is full and one that tells when it is
// empty; both go through a phase per round.
template <int kSlots>
struct PipelineState {
  uint32 index = 0;
  ATTNJIT_DEVICE uint32 slot() const { return index % kSlots; }
  // The phase in which the buffer becomes full, and the one in which it becomes empty before that.
  ATTNJIT_DEVICE uint32 full() const { return index / kSlots & 1; }
  ATTNJIT_DEVICE uint32 empty() const { return full() ^ 1; }
  ATTNJIT_DEVICE void advance() { ++index; }
};

}  // namespace attnjit::kernel
