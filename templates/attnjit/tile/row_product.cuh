#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/tile/copy.cuh"

namespace attnjit::kernel {

// Eight elements of a row from `column` on; those from `columns` on are 0.
template <bool kAligned>
ATTNJIT_DEVICE ptx::Vector16 load_eight(const uint16* row, int column, int columns) {
  if constexpr (kAligned) {
    return ptx::load_global(reinterpret_cast<const ptx::Vector16*>(row + column));
  }
  return load_elements(row, column, columns);
}

// The sum of the products of eight elements each.
template <DType kDType>
ATTNJIT_DEVICE float product_of_eight(const ptx::Vector16& a, const ptx::Vector16& b) {
  const auto element = [](const ptx::Vector16& v, int i) {
    return ptx::widen<kDType>(static_cast<uint16>(v.word[i / 2] >> (16 * (i & 1))));
  };
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(element(a, i), element(b, i), sum);
  return sum;
}

}  // namespace attnjit::kernel
