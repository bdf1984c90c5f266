#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Asynchronous products of a warpgroup. Their sums are NaN in the registers until wgmma_wait().
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void wgmma_fence() { services->wgmma_fence(); }
ATTNJIT_DEVICE void wgmma_commit() { services->wgmma_commit(); }
template <int kPending>
ATTNJIT_DEVICE void wgmma_wait() {
  services->wgmma_wait(kPending);
}
// The services know the addresses of registers, so that the compiler holds them anyway.
ATTNJIT_DEVICE void hold(float&) {}
ATTNJIT_DEVICE void hold(uint32&) {}

enum class Major : int { kDepth = 0, kColumns = 1 };

template <int kLineBytes = 128>
ATTNJIT_DEVICE uint64 matrix_descriptor(uint32 address, int leading_bytes, int stride_bytes) {
  return static_cast<uint64>((address & 0x3ffff) >> 4) |
         static_cast<uint64>(leading_bytes >> 4) << 16 |
         static_cast<uint64>(stride_bytes >> 4) << 32 | (kLineBytes == 128 ? 1ull : 2ull) << 62;
}

ATTNJIT_DEVICE uint64 short_line_descriptor(uint32 address) {
  return static_cast<uint64>((address & 0x3ffff) >> 4) | static_cast<uint64>(128 >> 4) << 32;
}

// Both forms, of the widths that the device's header has.
constexpr bool has_width(int slabs) {
  return slabs == 1 || slabs == 5 || slabs == 9 || (slabs % 4 == 0 && slabs <= 32);
}
template <DType kDType, Major kMajor = Major::kDepth, int kSlabs>
ATTNJIT_DEVICE void multiply_async(float (&c)[kSlabs][4], uint64 a, uint64 b, bool adds) {
  static_assert(has_width(kSlabs));
  services->multiply_async({c[0], 8 * kSlabs, nullptr, a, b, adds, kDType == DType::kBFloat16,
                            kMajor == Major::kColumns});
}
template <DType kDType, Major kMajor = Major::kColumns, int kSlabs>
ATTNJIT_DEVICE void multiply_async(float (&c)[kSlabs][4], const uint32 (&a)[4], uint64 b,
                                   bool adds) {
  static_assert(has_width(kSlabs));
  services->multiply_async(
      {c[0], 8 * kSlabs, a, 0, b, adds, kDType == DType::kBFloat16, kMajor == Major::kColumns});
}

}  // namespace attnjit::kernel::ptx
