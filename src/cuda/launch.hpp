#pragma once
#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// Sizes of one launch. Blocks are one-dimensional.
struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block = 1;
  unsigned shared_bytes = 0;  ///< dynamic shared memory per block
};

/// Enqueues `function` on `stream`. `params` points at one pointer per kernel parameter; the
/// driver has copied the values when this returns.
void launch(const Driver& driver, CUfunction function, const LaunchShape& shape, CUstream stream,
            void** params);

}  // namespace attnjit::cuda
