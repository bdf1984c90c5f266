#pragma once
#include "attnjit/ptx/math.cuh"

namespace attnjit::kernel {

// Score - lse of its row. Dead rows, whose lse is +inf, get -inf even where their bias is NaN: P is
// 0 there.
ATTNJIT_DEVICE float difference_from_lse(float score, float lse) {
  return lse == ptx::infinity() ? -ptx::infinity() : score - lse;
}

}  // namespace attnjit::kernel
