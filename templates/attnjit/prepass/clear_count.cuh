#pragma once
#include "attnjit/prepass/clear_count_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel {

// Sets to 0 the counter from which thread blocks of a kernel to come take their work. Without
// one it does nothing.
ATTNJIT_DEVICE void clear_count(uint32* count) {
  if (count != nullptr && ptx::block_index() == 0 && ptx::thread_index() == 0) {
    ptx::store_global(count, uint32{0});
  }
}

// The kernel that does it where no other prepass comes before.
template <ClearCountConfig kConfig>
ATTNJIT_DEVICE void clear_count(const ClearCountParams& params) {
  ptx::let_next_kernel_begin();
  clear_count(params.count);
}

}  // namespace attnjit::kernel
