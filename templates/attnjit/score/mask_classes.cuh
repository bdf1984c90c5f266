#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/tile/tile_use.h"
#include "attnjit/types.h"

// Combines the classes of a mask's tiles of kMaskTile by kMaskTile to the use of a kernel's tile.
namespace attnjit::kernel {

// Classes that tiles of `size` neighbours touch at most; a tile begins at each multiple of `size`.
ATTNJIT_INLINE_CONSTEXPR int classes_touched(int size) {
  const int lowest_bit = size & -size;
  const int step = lowest_bit < kMaskTile ? lowest_bit : kMaskTile;
  return ceil_div(kMaskTile - step + size, kMaskTile);
}

// The classes along one axis that the tile of kSize neighbours from `first` on touches, out of
// `count`: the first and the last one.
struct ClassRange {
  int begin, last;

  ATTNJIT_DEVICE int at(int i) const { return begin + i < last ? begin + i : last; }
};
template <int kSize>
ATTNJIT_DEVICE ClassRange touched_classes(int first, int count) {
  const int begin = first / kMaskTile;
  int last = count - 1;
  // A tile that is neither a fraction of a class nor several whole classes: some tiles touch fewer.
  if constexpr (kMaskTile % kSize != 0 && kSize % kMaskTile != 0) {
    const int touched = (first + kSize - 1) / kMaskTile;
    last = touched < last ? touched : last;
  }
  return {begin, last};
}

// The use of the tile of kQueries by kKeys that begins at (first_query, first_key), by `classes`
// [num_q_tiles][num_kv_tiles]: a class decides only if all touched classes agree. A class that is
// read twice, where a tile reaches past the mask, changes nothing.
template <int kQueries, int kKeys>
ATTNJIT_DEVICE TileUse united_use(const uint8* classes, int num_q_tiles, int num_kv_tiles,
                                  int first_query, int first_key) {
  const ClassRange rows = touched_classes<kQueries>(first_query, num_q_tiles);
  const ClassRange columns = touched_classes<kKeys>(first_key, num_kv_tiles);
  bool any = false, all = true;
#pragma unroll
  for (int i = 0; i < classes_touched(kQueries); ++i) {
    const uint8* const row = classes + static_cast<int64>(rows.at(i)) * num_kv_tiles;
#pragma unroll
    for (int j = 0; j < classes_touched(kKeys); ++j) {
      const auto use = static_cast<TileUse>(ptx::load_global_written(row + columns.at(j)));
      any |= use != TileUse::kSkip;
      all &= use == TileUse::kPlain;
    }
  }
  return !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
}

}  // namespace attnjit::kernel
