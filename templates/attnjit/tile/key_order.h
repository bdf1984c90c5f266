#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Which key a column of a score fragment stands for.
//
// The matrix instruction gives lane t of a quad the columns {2t, 2t + 1} of each group of eight.
// The order of the keys is ours to choose, as long as K's rows (columns of S) and V's rows (the
// depth of P V) follow it, and both come from shared memory by row address. So within 32 keys
//
//     group n (0 ... 3), column 2t + e   stands for key   8t + 2n + e
//
// and each thread holds eight neighbouring keys of a row: a bias is one 16-byte load and a packed
// mask one byte, without a detour through shared memory.
struct KeyOrder {
  // Key of element `e` of column group `n`, relative to the thread's first key of the tile.
  ATTNJIT_CONSTEXPR static int offset(int n, int e) {
    return 32 * (n >> 2) + 2 * (n & 3) + (e & 1);
  }
  // The thread's first key, relative to the tile.
  ATTNJIT_INLINE_CONSTEXPR static int thread_key(int lane) { return 8 * (lane & 3); }
  // Key that stands in `column` (0 ... 7) of column group `n`.
  ATTNJIT_INLINE_CONSTEXPR static int row(int n, int column) {
    return 32 * (n >> 2) + 8 * (column >> 1) + 2 * (n & 3) + (column & 1);
  }
};

// The same for wgmma, whose operands the copy engine brings: a tensor map can bring every fourth
// row of a tile, then the next row of every four, and so on. So of S = block_kv / 32 spans of 32
// keys
//
//     group n (0 ... 4 S - 1), column 2t + e   stands for key   32 (n mod S) + 8t + 4e + n div S
//
// and each thread holds eight neighbouring keys of each span again.
struct StridedKeyOrder {
  ATTNJIT_CONSTEXPR static int offset(int spans, int n, int e) {
    return 32 * (n % spans) + 4 * (e & 1) + n / spans;
  }
  // The key of row `row` of a tile of `keys` keys, as the copy engine brings it.
  ATTNJIT_INLINE_CONSTEXPR static int key(int keys, int row) {
    return 4 * (row % (keys / 4)) + row / (keys / 4);
  }
};

// Keys of a tile that the copy engine brings from one place: all of them, or where keys are paged
// and pages smaller, those of a page.
ATTNJIT_CONSTEXPR int keys_of_piece(int page_size, int keys) {
  return page_size > 0 && page_size < keys ? page_size : keys;
}

}  // namespace attnjit::kernel
