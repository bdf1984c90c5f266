#pragma once
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The pages that hold a tile of kKeys keys, where pages have kSize each. A lane of a warp holds
// every 32nd of their numbers, so that one access to the table reads all.
template <int kKeys, int kSize>
struct TilePages {
  // A tile begins anywhere in a page unless one divides the other.
  static constexpr int kCount = kSize % kKeys == 0   ? 1
                                : kKeys % kSize == 0 ? kKeys / kSize
                                                     : ceil_div(kKeys - 1, kSize) + 1;
  static constexpr int kWords = ceil_div(kCount, 32);

  uint32 word[kWords];

  // The page of the tile that `lane` holds in a word; all lanes hold a single page.
  ATTNJIT_DEVICE static int index(int i, int lane) { return kCount == 1 ? 0 : 32 * i + lane; }
  // The number of page `index` of the tile; `index` may differ between lanes. All lanes of a warp
  // call it.
  ATTNJIT_DEVICE int at(int index) const {
    if constexpr (kCount == 1) return static_cast<int>(word[0]);
    uint32 page = ptx::warp_broadcast(word[0], index & 31);
#pragma unroll
    for (int i = 1; i < kWords; ++i) {
      const uint32 other = ptx::warp_broadcast(word[i], index & 31);
      page = index / 32 == i ? other : page;
    }
    return static_cast<int>(page);
  }
};

// A tile of one head of a pool.
template <int kKeys, int kSize>
struct PagedTile {
  int first_key, head;
  TilePages<kKeys, kSize> pages;
};

}  // namespace attnjit::kernel
