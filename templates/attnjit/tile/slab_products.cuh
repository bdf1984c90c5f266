#pragma once
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/tile/fragments.cuh"
#include "attnjit/tile/slab_tile.cuh"

// Asynchronous products of a warpgroup on tiles in shared memory. The rules of ptx/wgmma.cuh apply:
// hold(), wgmma_fence(), products, wgmma_commit(), and after wgmma_wait() hold() again.
namespace attnjit::kernel {

// Keeps the compiler from moving uses of sums or operands across products.
template <int kRowTiles, int kGroups>
ATTNJIT_DEVICE void hold(Fragments<kRowTiles, kGroups>& sums) {
  sums.for_each([](float& x, int, int, int) { ptx::hold(x); });
}
template <int kGroups>
ATTNJIT_DEVICE void hold(uint32 (&operand)[kGroups][2]) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) ptx::hold(operand[n][h]);
  }
}
template <class First, class Second, class... Others>
ATTNJIT_DEVICE void hold(First& first, Second& second, Others&... others) {
  hold(first);
  hold(second);
  (hold(others), ...);
}

// Step i, two groups, of an operand in registers: rounded scores, two to a word.
template <int kGroups>
ATTNJIT_DEVICE auto& operand_step(uint32 (&operand)[kGroups][2], int i) {
  return reinterpret_cast<uint32(&)[4]>(operand[2 * i]);
}
template <int kGroups>
ATTNJIT_DEVICE const auto& operand_step(const uint32 (&operand)[kGroups][2], int i) {
  return reinterpret_cast<const uint32(&)[4]>(operand[2 * i]);
}

// sums = A B^T for 64 rows of A and the rows of B.
template <DType kDType, int kGroups, class TileA, class TileB>
ATTNJIT_DEVICE void mma_abt(Fragments<1, kGroups>& sums, const KMajor<TileA>& a,
                            const KMajor<TileB>& b) {
  static_assert(TileA::kWidth == TileB::kWidth);
#pragma unroll
  for (int i = 0; i < TileB::kWidth / 16; ++i) {
    ptx::multiply_async<kDType>(sums[0], a.step(i), b.step(i), i != 0);
  }
}

// sums += A B for an operand A in registers, whose columns are the rows of B.
template <DType kDType, int kGroups, int kOperandGroups, class TileB>
ATTNJIT_DEVICE void mma_ab(Fragments<1, kGroups>& sums, const uint32 (&a)[kOperandGroups][2],
                           const MnMajor<TileB>& b) {
  static_assert(8 * kOperandGroups == TileB::kHeight);
#pragma unroll
  for (int i = 0; i < TileB::kHeight / 16; ++i) {
    ptx::multiply_async<kDType>(sums[0], operand_step(a, i), b.step(i), true);
  }
}

}  // namespace attnjit::kernel
