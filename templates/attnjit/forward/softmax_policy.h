#pragma once

namespace attnjit::kernel {

// How a row's softmax is computed tile by tile: forward/softmax.cuh.
enum class SoftmaxPolicy : int { kRunningMax = 0, kMaxFree = 1 };

}  // namespace attnjit::kernel
