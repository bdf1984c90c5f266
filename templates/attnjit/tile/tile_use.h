#pragma once

namespace attnjit::kernel {

// The work that a tile of scores needs.
enum class TileUse : int { kSkip = 0, kMasked = 1, kPlain = 2 };

}  // namespace attnjit::kernel
