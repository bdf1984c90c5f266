#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Which keys of k and v those of a call are.
struct SelectedKeysParams {
  const void* indices;
  int64 batch_stride, head_stride, key_stride;  // elements
  const int32* seqlens_kv;                      // may be nullptr
  int32 num_keys;                               // rows of k and v
};

}  // namespace attnjit::kernel
