#pragma once
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/transposed.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/key_order.cuh"
#include "attnjit/tile/shared_tile.cuh"

// The products of the backward on tiles in shared memory. Each adds a warp's part of the result,
// fragments [row tile of 16][group of 8 columns], to its accumulator.
namespace attnjit::kernel {

// sum += A B^T for rows first_row ... of A and rows first_key ... of B, whose order is KeyOrder's:
// scores from queries and keys.
template <DType kDType, int kDepth, int kRowTiles, int kGroups, class TileA, class TileB>
ATTNJIT_DEVICE void add_scores(Scores<kRowTiles, kGroups>& sum, const TileA& a_tile, int first_row,
                               const TileB& b_tile, int first_key) {
  const int lane = ptx::lane_index();
  const int a_row = first_row + (lane & 15);
#pragma unroll
  for (int depth = 0; depth < kDepth / 16; ++depth) {
    ptx::FragmentA a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      a[m] = ptx::load_fragment_a(a_tile.address(a_row + 16 * m, 2 * depth ^ (lane >> 4)));
    }
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      const int row = first_key + KeyOrder::row(n, lane & 7) + 2 * (lane >> 4);
      const ptx::FragmentBPair b =
          ptx::load_fragment_b(b_tile.address(row, 2 * depth ^ (lane >> 3 & 1)));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][n], a[m], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][n + 1], a[m], b.word[1]);
      }
    }
  }
}

// The columns of a result that one of `kWarps` neighbouring warps computes: pairs of groups (16
// columns) dealt out in order, the last warps left with fewer.
template <int kColumns, int kWarps>
struct ColumnShare {
  static constexpr int kPairs = (kColumns / 16 + kWarps - 1) / kWarps;
  static constexpr int kGroups = 2 * kPairs;
  int first_pair;

  ATTNJIT_DEVICE explicit ColumnShare(int warp) : first_pair(warp * kPairs) {}
  // First group of pair `p`, of all columns.
  ATTNJIT_DEVICE int group(int p) const { return 2 * (first_pair + p); }
  ATTNJIT_DEVICE bool has(int p) const {
    return kColumns / 16 % kWarps == 0 || first_pair + p < kColumns / 16;
  }
};

// sum += A B for rows first_row ... of A, or of its transpose, and the warp's columns of B. kDepth
// is the number of rows of B.
template <DType kDType, bool kTransposed, int kDepth, int kRowTiles, class Share, class TileA,
          class TileB>
ATTNJIT_DEVICE void add_product(Scores<kRowTiles, Share::kGroups>& sum, const TileA& a_tile,
                                int first_row, const TileB& b_tile, const Share& share) {
  const int lane = ptx::lane_index();
#pragma unroll
  for (int depth = 0; depth < kDepth / 16; ++depth) {
    ptx::FragmentA a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const int row = first_row + 16 * m;
      if constexpr (kTransposed) {
        a[m] = ptx::load_fragment_a_transposed(
            a_tile.address(16 * depth + (lane & 7) + 8 * (lane >> 4), row / 8 + (lane >> 3 & 1)));
      } else {
        a[m] = ptx::load_fragment_a(a_tile.address(row + (lane & 15), 2 * depth ^ (lane >> 4)));
      }
    }
#pragma unroll
    for (int p = 0; p < Share::kPairs; ++p) {
      if (!share.has(p)) continue;
      const ptx::FragmentBPair b = ptx::load_fragment_b_transposed(
          b_tile.address(16 * depth + (lane & 15), share.group(p) + (lane >> 4)));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        ptx::multiply_accumulate<kDType>(sum[m][2 * p], a[m], b.word[0]);
        ptx::multiply_accumulate<kDType>(sum[m][2 * p + 1], a[m], b.word[1]);
      }
    }
  }
}

}  // namespace attnjit::kernel
