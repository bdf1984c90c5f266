#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that sets a counter to 0.
struct ClearCountConfig {
  int num_warps;

  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * num_warps; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return 0; }
};

struct ClearCountParams {
  uint32* count;
};

}  // namespace attnjit::kernel
