#pragma once
#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// Sizes of one launch. Blocks are one-dimensional.
struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block = 1;
  unsigned shared_bytes = 0;  ///< dynamic shared memory per block
  /// The kernel may begin before the one ahead of it in the stream has ended; it waits for that by
  /// griddepcontrol.wait. From compute capability 9.0 on.
  bool overlaps = false;
};

/// Enqueues `function` on `stream`. `params` points at one pointer per kernel parameter; the
/// driver has copied the values when this returns.
void launch(const Driver& driver, CUfunction function, const LaunchShape& shape, CUstream stream,
            void** params);

}  // namespace attnjit::cuda
