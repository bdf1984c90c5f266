#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Which key a column of a score fragment stands for.
//
// The matrix instruction gives lane t of a quad the columns {2t, 2t + 1} of each group of eight.
// The kernel may choose the order of the keys, as long as K's rows (columns of S) and V's rows (the
// depth of P V) follow it, and both come from shared memory by row address. So within 32 keys
//
//     group n (0 ... 3), column 2t + e   stands for key   8t + 2n + e
//
// and each thread holds eight neighbouring keys of a row: a bias is one 16-byte load and a bit mask
// one byte, without shared memory.
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

// Columns in the order of their rows, as queries are where keys have the other axis.
struct NaturalOrder {
  ATTNJIT_INLINE_CONSTEXPR static int row(int n, int column) { return 8 * n + column; }
};

// KeyOrder for wgmma, whose operands the copy engine brings in boxes: a tensor map can bring every
// fourth row of a box, then the next row of every four, and so on. So of the S spans of 32 keys
// of a box
//
//     group n (0 ... 4 S - 1), column 2t + e   stands for key   32 (n mod S) + 8t + 4e + n div S
//
// and each thread holds eight neighbouring keys of each span again. In boxes of 16 keys it is
// every other row, and a thread holds four neighbouring keys of each span of 16.
struct StridedKeyOrder {
  // The distance of rows of a box of `keys` keys that follow each other in shared memory.
  ATTNJIT_INLINE_CONSTEXPR static int stride(int keys) { return keys % 32 == 0 ? 4 : 2; }
  // Keys of a thread that are neighbours, and the span that holds those of a quad.
  ATTNJIT_INLINE_CONSTEXPR static int neighbours(int keys) { return 2 * stride(keys); }
  ATTNJIT_INLINE_CONSTEXPR static int span(int keys) { return 8 * stride(keys); }

  // Key of element `e` of column group `n`, relative to the thread's first key of the tile.
  ATTNJIT_CONSTEXPR static int offset(int keys, int n, int e) {
    const int spans = keys / span(keys), group = n % (keys / 8);
    return keys * (n / (keys / 8)) + span(keys) * (group % spans) + stride(keys) * (e & 1) +
           group / spans;
  }
  // The thread's first key, relative to the tile.
  ATTNJIT_INLINE_CONSTEXPR static int thread_key(int keys, int lane) {
    return neighbours(keys) * (lane & 3);
  }
  // The key of row `row` of a box, as the copy engine brings it.
  ATTNJIT_INLINE_CONSTEXPR static int key(int keys, int row) {
    return stride(keys) * (row % (keys / stride(keys))) + row / (keys / stride(keys));
  }
};

// Contiguous keys of a tile, which are one box of the copy engine: all, or those of a page where
// keys are paged and pages are smaller.
ATTNJIT_CONSTEXPR int keys_of_page(int page_size, int keys) {
  return page_size > 0 && page_size < keys ? page_size : keys;
}

}  // namespace attnjit::kernel
