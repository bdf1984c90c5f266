#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A mask over the last keys in use, a column for each query of the tensor; not 0 = keep.
struct TailMaskParams {
  const uint8* mask;  // [batch, seqlen_q, seqlen_q]
  int64 batch_stride, query_stride, key_stride;
};

}  // namespace attnjit::kernel
