#pragma once
#include "attnjit/backward/block.cuh"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/store_rows.cuh"

// Ways of dk and dv to memory, from a warp that has the gradients of 16 keys in its fragments.
// `walk` is a KeyTileWalk, `first_key` the first of the warp's keys.
namespace attnjit::kernel {

// Writes them, times `factor`.
template <DType kDType, int kColumns, class Walk, class Sums>
ATTNJIT_DEVICE void write_key_rows(const Walk& walk, int first_key, const Sums& sums, float factor,
                                   void* base, const RowStrides& strides) {
  uint16* const keys = walk.key_rows(static_cast<uint16*>(base), strides);
  store_rows<kDType>(sums, factor, keys, strides.row, first_key, walk.block.seqlen_kv, kColumns);
}

// Adds them to the sums of all splits.
template <int kColumns, class Walk, class Sums>
ATTNJIT_DEVICE void add_key_rows(const Walk& walk, int first_key, const Sums& sums, float* total) {
  constexpr int kFragments = ceil_div(kColumns, 8);  // of 16 rows
  const int kv_heads = walk.params.num_heads_q / Walk::kGqaRatio;
  const int64 plane = static_cast<int64>(walk.block.batch) * kv_heads + walk.kv_head();
  const int padded = round_up(walk.params.seqlen_kv, kRowBlock);
  if (first_key >= padded) return;
  float* const first = total + (plane * padded + first_key) * (8 * kFragments);
#pragma unroll
  for (int n = 0; n < kFragments; ++n) ptx::add_fragment(first + n * 128, sums[0][n]);
}

}  // namespace attnjit::kernel
