#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Axis limits of a window around the diagonal; causal is right = 0 without a left limit.
struct BandParams {
  // Keys before / after the diagonal, used where the config bounds that side; negative if the
  // window ends on the other side.
  int32 left, right;
  int32 bottom_right;  // 1: the diagonal ends at the last query and key; 0: it starts at the first
};

}  // namespace attnjit::kernel
