#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Rows and keys in use per batch element, or null.
struct SeqlensParams {
  const int32* q;   // [batch]
  const int32* kv;  // [batch]
};

}  // namespace attnjit::kernel
