#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A tensor in global memory as the copy engine sees it: address, extents, strides, box and swizzle,
// in an encoding that is the driver's own (CUtensorMap of cuda.h).
struct alignas(128) TensorMap {
  uint64 word[16];
};

}  // namespace attnjit::kernel
