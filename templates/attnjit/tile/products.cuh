#pragma once
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/transposed.cuh"
#include "attnjit/tile/cursor.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/key_order.h"

// The products of the backward on tiles in shared memory. Each adds a warp's share of the result,
// fragments [row tile of 16][group of 8 columns], to its accumulator. Rows of A, and keys, begin at
// a multiple of the warp's number of them.
namespace attnjit::kernel {

// sum += A B^T for rows first_row ... of A and rows first_key ... of B, whose order is KeyOrder's:
// scores from queries and keys.
template <DType kDType, int kDepth, int kRowTiles, int kGroups, class TileA, class TileB>
ATTNJIT_DEVICE void add_scores(Fragments<kRowTiles, kGroups>& sum, const TileA& a_tile,
                               int first_row, const TileB& b_tile, int first_key) {
  const int lane = ptx::lane_index();
  const auto a_cursor = cursor(a_tile, first_row + (lane & 15), lane >> 4);
  const int key = first_key + KeyOrder::row(0, lane & 7) + 2 * (lane >> 4);
  const auto b_cursor = cursor(b_tile, key, lane >> 3 & 1);
#pragma unroll
  for (int depth = 0; depth < kDepth / 16; ++depth) {
    ptx::FragmentA a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      a[m] = ptx::load_fragment_a(a_cursor.at(16 * m, 2 * depth));
    }
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      const ptx::FragmentBPair b =
          ptx::load_fragment_b(b_cursor.at(KeyOrder::row(n, 0), 2 * depth));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][n], a[m], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][n + 1], a[m], b.word[1]);
      }
    }
  }
}

// Rows of a tile from `first_row` on, as an operand.
template <int kRowTiles, int kDepth, class TileA>
ATTNJIT_DEVICE void load_operand(ptx::FragmentA (&a)[kRowTiles][kDepth], const TileA& a_tile,
                                 int first_row) {
  const int lane = ptx::lane_index();
  const auto a_cursor = cursor(a_tile, first_row + (lane & 15), lane >> 4);
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      a[m][depth] = ptx::load_fragment_a(a_cursor.at(16 * m, 2 * depth));
    }
  }
}
// sum = A B^T for an operand and the first rows of B, which come in `Order`.
template <DType kDType, class Order, int kRowTiles, int kDepth, int kGroups, class TileB>
ATTNJIT_DEVICE void compute_scores(Fragments<kRowTiles, kGroups>& sum,
                                   const ptx::FragmentA (&a)[kRowTiles][kDepth],
                                   const TileB& b_tile) {
  const int lane = ptx::lane_index();
  const int row = Order::row(0, lane & 7) + Order::row(1, 0) * (lane >> 4);
  const auto b_cursor = cursor(b_tile, row, lane >> 3 & 1);
  sum = 0.0f;
#pragma unroll
  for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      const ptx::FragmentBPair b = ptx::load_fragment_b(b_cursor.at(Order::row(n, 0), 2 * depth));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][n], a[m][depth], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][n + 1], a[m][depth], b.word[1]);
      }
    }
  }
}

// sum += A B, where A is in registers, rounded: the rows of a warp's scores, whose columns come in
// `Order`. Two column groups of them are the 16 columns of one operand. Rows first_key ... of B are
// the columns.
template <DType kDType, class Order = KeyOrder, int kRowTiles, int kGroups, int kOutGroups,
          class TileB>
ATTNJIT_DEVICE void add_key_product(Fragments<kRowTiles, kOutGroups>& sum,
                                    const uint32 (&a_words)[kRowTiles][kGroups][2],
                                    const TileB& b_tile, int first_key) {
  const int lane = ptx::lane_index();
  const int key = first_key + Order::row(0, lane & 7) + Order::row(1, 0) * (lane >> 3 & 1);
  const auto b_cursor = cursor(b_tile, key, lane >> 4);
#pragma unroll
  for (int n = 0; n < kGroups; n += 2) {
    ptx::FragmentA a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      a[m] = {a_words[m][n][0], a_words[m][n][1], a_words[m][n + 1][0], a_words[m][n + 1][1]};
    }
#pragma unroll
    for (int column = 0; column < kOutGroups; column += 2) {
      const ptx::FragmentBPair b =
          ptx::load_fragment_b_transposed(b_cursor.at(Order::row(n, 0), column));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][column], a[m], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][column + 1], a[m], b.word[1]);
      }
    }
  }
}

// sum += A 1 of the same A: each column of `sum` has the sums of its rows.
template <DType kDType, int kRowTiles, int kGroups>
ATTNJIT_DEVICE void add_row_sums(Fragments<kRowTiles, 1>& sum,
                                 const uint32 (&a_words)[kRowTiles][kGroups][2]) {
  constexpr uint32 kOnes[2] = {pair_of_ones(kDType), pair_of_ones(kDType)};
#pragma unroll
  for (int n = 0; n < kGroups; n += 2) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const ptx::FragmentA a = {a_words[m][n][0], a_words[m][n][1], a_words[m][n + 1][0],
                                a_words[m][n + 1][1]};
      ptx::multiply_accumulate<kDType>(sum[m][0], a, kOnes);
    }
  }
}

// The columns of a result that one of `kWarps` neighbouring warps computes: pairs of groups (16
// columns) dealt out in order, the last warps left with fewer.
template <int kColumns, int kWarps>
struct ColumnShare {
  static constexpr int kPairs = (kColumns / 16 + kWarps - 1) / kWarps;
  static constexpr int kGroups = 2 * kPairs;
  // Whether a warp's groups follow its first one without a carry in their bits.
  static constexpr bool kRound = (kPairs & (kPairs - 1)) == 0;
  int first_pair;

  ATTNJIT_DEVICE explicit ColumnShare(int warp) : first_pair(warp * kPairs) {}
  // First group of pair `p`, of all columns.
  ATTNJIT_DEVICE int group(int p) const { return 2 * (first_pair + p); }
  ATTNJIT_DEVICE bool has(int p) const {
    return kColumns / 16 % kWarps == 0 || first_pair + p < kColumns / 16;
  }
  // At row `row` of the share's first group in a tile of these columns.
  template <int kRows>
  ATTNJIT_DEVICE auto cursor_in(const SharedTile<kRows, kColumns>& tile, int row, int chunk) const {
    if constexpr (kRound) {
      return cursor(tile, row, group(0) + chunk);
    } else {
      return SlowCursor<SharedTile<kRows, kColumns>>{tile, row, group(0) + chunk};
    }
  }
};

// sum += A B for rows first_row ... of A, or of its transpose, and the warp's columns of kDepth
// rows of B from `first_depth` on, a multiple of 32.
template <DType kDType, bool kTransposed, int kDepth, int kRowTiles, class Share, class TileA,
          class TileB>
ATTNJIT_DEVICE void add_product(Fragments<kRowTiles, Share::kGroups>& sum, const TileA& a_tile,
                                int first_row, const TileB& b_tile, const Share& share,
                                int first_depth = 0) {
  const int lane = ptx::lane_index();
  const auto a_cursor =
      kTransposed ? cursor(a_tile, (lane & 7) + 8 * (lane >> 4), first_row / 8 + (lane >> 3 & 1))
                  : cursor(a_tile, first_row + (lane & 15), lane >> 4);
  const auto b_cursor = share.cursor_in(b_tile, first_depth + (lane & 15), lane >> 4);
#pragma unroll
  for (int depth = 0; depth < kDepth / 16; ++depth) {
    ptx::FragmentA a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      if constexpr (kTransposed) {
        a[m] = ptx::load_fragment_a_transposed(a_cursor.at(16 * depth, 2 * m));
      } else {
        a[m] = ptx::load_fragment_a(a_cursor.at(16 * m, 2 * depth));
      }
    }
#pragma unroll
    for (int p = 0; p < Share::kPairs; ++p) {
      if (!share.has(p)) continue;
      const ptx::FragmentBPair b = ptx::load_fragment_b_transposed(b_cursor.at(16 * depth, 2 * p));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][2 * p], a[m], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][2 * p + 1], a[m], b.word[1]);
      }
    }
  }
}

}  // namespace attnjit::kernel
