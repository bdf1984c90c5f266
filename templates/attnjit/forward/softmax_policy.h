#pragma once

namespace attnjit::kernel {

// The way in which a row's softmax is computed tile by tile, see forward/softmax.cuh.
enum class SoftmaxPolicy : int { kRunningMax = 0, kMaxFree = 1 };

}  // namespace attnjit::kernel
