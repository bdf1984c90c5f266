#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The state of a warp in a ring of kSlots buffers, like CUTLASS's PipelineState: the number of
// buffers that it has used. Each buffer has a full barrier and an empty barrier; both complete a
// phase per round.
template <int kSlots>
struct PipelineState {
  uint32 index = 0;
  ATTNJIT_DEVICE uint32 slot() const { return index % kSlots; }
  // The phase of the full barrier, and the phase of the empty barrier before it.
  ATTNJIT_DEVICE uint32 full() const { return index / kSlots & 1; }
  ATTNJIT_DEVICE uint32 empty() const { return full() ^ 1; }
  ATTNJIT_DEVICE void advance() { ++index; }
};

}  // namespace attnjit::kernel
