#pragma once
#include <array>
#include <cstdint>

#include "attnjit/export.h"

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// Element types. kBool is one byte per element, zero = false (uint8 masks use it as well).
/// Operands of expressions and lists of blocks are kInt32, key indices that or kInt64.
enum class DType : std::int32_t {
  kFloat16 = 0,
  kBFloat16 = 1,
  kFloat32 = 2,
  kBool = 3,
  kInt32 = 4,
  kInt64 = 5
};

/// Bytes of one element; 0 for a value that is no DType.
constexpr std::int64_t element_size(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kInt64:
      return 8;
    case DType::kBool:
      return 1;
  }
  return 0;
}

/// A view of a 4-D tensor in device memory; it owns nothing.
/// Axes are (batch, head, sequence, feature) for q, k, v and out, and (batch, head, query, key)
/// for mask and bias. Strides count elements, may be any 64-bit value and may be zero on an axis
/// that is only read.
struct Tensor {
  void* data = nullptr;                   ///< the first element, in device memory
  DType dtype = DType::kBFloat16;         ///< of the elements
  std::array<std::int64_t, 4> shape{};    ///< sizes of the axes
  std::array<std::int64_t, 4> strides{};  ///< elements from one index of an axis to the next

  /// A dense tensor whose last axis is contiguous and whose memory order equals its axis order.
  static constexpr Tensor contiguous(void* data, DType dtype, std::array<std::int64_t, 4> shape) {
    return {data, dtype, shape, {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}};
  }
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
