#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A bias or a per-query mask, read in place. Broadcast axes have stride 0.
struct OperandParams {
  const void* data;
  int64 batch_stride, head_stride, query_stride, key_stride;  // elements
  int32 heads_per_plane;    // query heads that share one plane of the operand
  int32 batches_per_plane;  // batch elements that do, see batch_groups.cuh
};

}  // namespace attnjit::kernel
