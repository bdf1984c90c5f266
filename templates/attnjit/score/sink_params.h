#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A score per query head that has no key and no value.
struct SinkParams {
  const void* data;  // [num_heads_q]
  int64 head_stride;
};

// The least lse of a row with a live key: above the sink, at least in the last digits of a float. A
// row in use without a live key has the sink itself, which tells the backward that it is dead.
ATTNJIT_CONSTEXPR float least_live_lse(float sink) {
  return sink + (sink < 0.0f ? -sink : sink) * 0x1p-22f + 0x1p-60f;
}

}  // namespace attnjit::kernel
