#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A boolean mask over keys as its caller stores it.
struct ByteMaskParams {
  const uint8* mask;                            // nonzero = keep
  int64 batch_stride, head_stride, key_stride;  // in bytes
  int32 heads_per_plane;                        // query heads that share one plane
  int32 batches_per_plane;                      // batch elements that do, see batch_groups.cuh
};

}  // namespace attnjit::kernel
