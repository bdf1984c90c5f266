#pragma once
#include "attnjit/tile/key_order.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Which axis of a fragment of scores runs along the queries; the keys have the other one.
enum class QueryAxis : int { kRows = 0, kColumns = 1 };

// The scores that a thread holds at a time, and their positions: the only thing that features know
// of a kernel.
//
// Rows are those of the plane that the thread block belongs to: queries, or (query, head) pairs
// with pack_gqa. The thread's scores lie in lines, one for each of its rows. A row is
// given as its distance from the thread's first row, Block::thread_row, a key as that from its
// first key, Block::thread_key: constants once loops are unrolled.
struct ScoreShape {
  QueryAxis query_axis;
  int row_tiles;         // of the fragments, 16 rows each
  int groups;            // of the fragments, 8 columns each
  int block_q;           // rows of a tile of the thread block
  int block_kv;          // its keys
  int pack_gqa_heads;    // query heads that alternate in the rows; 1: rows are queries
  int gqa_ratio;         // query heads that share a kv head
  int strided_keys = 0;  // of a box in StridedKeyOrder, 0: the order is KeyOrder

  ATTNJIT_INLINE_CONSTEXPR bool queries_in_rows() const { return query_axis == QueryAxis::kRows; }
  // Keys that the scores verbs see at a time.
  ATTNJIT_INLINE_CONSTEXPR int keys() const {
    return queries_in_rows() ? 8 * groups : 16 * row_tiles;
  }
  // With queries in rows a thread holds so many neighbouring keys of each span of so many keys.
  ATTNJIT_INLINE_CONSTEXPR int neighbours() const {
    return strided_keys > 0 ? StridedKeyOrder::neighbours(strided_keys) : 8;
  }
  ATTNJIT_INLINE_CONSTEXPR int span() const { return 4 * neighbours(); }
  ATTNJIT_INLINE_CONSTEXPR int lines() const {
    return queries_in_rows() ? 2 * row_tiles : 2 * groups;
  }

  // Arguments of the functions below are known once loops are unrolled, or at run time. NVRTC 13.2
  // to 13.5 then read the members of a template parameter from memory: nothing folds, and arrays
  // that the results index are kept in local memory. So the functions are callable on a temporary
  // copy only, whose members are constants: ScoreShape(kShape).line(m, n, e).

  // The line of fragment element (m, n, e), and its row.
  ATTNJIT_INLINE_CONSTEXPR int line(int m, int n, int e) const&& {
    return queries_in_rows() ? 2 * m + e / 2 : 2 * n + (e & 1);
  }
  ATTNJIT_INLINE_CONSTEXPR int row(int line) const&& {
    return queries_in_rows() ? 8 * line : 8 * (line / 2) + (line & 1);
  }
  // The key of element (m, n, e).
  ATTNJIT_INLINE_CONSTEXPR int key(int m, int n, int e) const&& {
    if (!queries_in_rows()) return 16 * m + 8 * (e / 2);
    return strided_keys > 0 ? StridedKeyOrder::offset(strided_keys, n, e) : KeyOrder::offset(n, e);
  }
  // The first row of lane `lane` in the tile of its warp, and its first key.
  ATTNJIT_INLINE_CONSTEXPR int lane_row(int lane) const&& {
    return queries_in_rows() ? lane / 4 : 2 * (lane & 3);
  }
  ATTNJIT_INLINE_CONSTEXPR int lane_key(int lane) const&& {
    if (!queries_in_rows()) return lane / 4;
    return strided_keys > 0 ? StridedKeyOrder::thread_key(strided_keys, lane)
                            : KeyOrder::thread_key(lane);
  }
};

}  // namespace attnjit::kernel
