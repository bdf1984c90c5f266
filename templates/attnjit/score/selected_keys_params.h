#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// The rows of k and v that are the keys of a call, by kv head.
struct SelectedKeysParams {
  const void* indices;
  int64 batch_stride, head_stride, key_stride;  // elements
  const int32* seqlens_kv;                      // may be nullptr
  int32 num_keys;                               // rows of k and v
};

}  // namespace attnjit::kernel
