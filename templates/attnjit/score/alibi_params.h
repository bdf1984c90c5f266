#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A slope per query head, or per batch element and query head.
struct AlibiParams {
  const float* slopes;
  int64 batch_stride, head_stride;
  int32 offset;        // by which the diagonal lies further right
  int32 bottom_right;  // 1: it ends at the last query and key; 0: it starts at the first
};

}  // namespace attnjit::kernel
