#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// The pages of each batch element's keys.
struct PagedKeysParams {
  const int32* pages;  // [batch, most pages of an element]
  int64 stride;        // elements from one batch element to the next
};

}  // namespace attnjit::kernel
