#pragma once

namespace attnjit::kernel {

// The work that a tile of scores needs.
enum class TileUse : int { kSkip = 0, kMasked = 1, kPlain = 2 };

// Queries, or keys, of a mask tile with a class, a TileUse, independent of the tiles of the kernels
// that read it.
inline constexpr int kMaskTile = 64;

}  // namespace attnjit::kernel
