#include "executor/tensor_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

constexpr std::array<char, 8> kMark = {'a', 't', 't', 'n', 'j', 'i', 't', '1'};
static_assert(sizeof(TensorDescription) <= sizeof(CUtensorMap));

// 0 for a type that the executor lacks.
std::uint8_t bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return 4;
    default:
      return 0;
  }
}

// 0 for a swizzle that the executor lacks.
std::uint8_t bytes_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return 16;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
    default:
      return 0;
  }
}

// The driver's rules, as the documentation of cuTensorMapEncodeTiled() states them.
bool is_valid(const TensorDescription& tensor, std::span<const cuuint64_t> extents,
              std::span<const cuuint32_t> box, std::span<const cuuint32_t> steps) {
  constexpr std::uint64_t kMaxStride = std::uint64_t{1} << 40;
  if (tensor.element_bytes == 0 || tensor.swizzled_bytes == 0) return false;
  if (reinterpret_cast<std::uintptr_t>(tensor.address) % 16 != 0) return false;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (extents[axis] < 1 || extents[axis] > std::uint64_t{1} << 32) return false;
    if (box[axis] < 1 || box[axis] > 256) return false;
    if (steps[axis] < 1 || steps[axis] > 8) return false;
    if (axis > 0 && (tensor.stride[axis] % 16 != 0 || tensor.stride[axis] >= kMaxStride)) {
      return false;
    }
  }
  const std::uint32_t line = box[0] * tensor.element_bytes;
  const bool fits = tensor.swizzled_bytes == 16 || line <= tensor.swizzled_bytes;
  return line % 16 == 0 && fits;
}

}  // namespace

CUresult CUDAAPI encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                   void* address, const cuuint64_t* extents,
                                   const cuuint64_t* strides, const cuuint32_t* box,
                                   const cuuint32_t* element_strides,
                                   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                   CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (map == nullptr || rank < 1 || rank > TensorDescription::kMaxRank ||
      interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  TensorDescription tensor{.mark = kMark,
                           .address = static_cast<std::byte*>(address),
                           .rank = static_cast<std::uint8_t>(rank),
                           .element_bytes = bytes_of(type),
                           .swizzled_bytes = bytes_of(swizzle)};
  tensor.count.fill(1);
  for (cuuint32_t axis = 0; axis < rank; ++axis) {
    // The innermost axis has no steps, whatever its element stride is.
    const cuuint32_t step = axis == 0 ? 1 : std::max(element_strides[axis], 1u);
    tensor.last[axis] = static_cast<std::uint32_t>(extents[axis] - 1);
    tensor.stride[axis] = axis == 0 ? tensor.element_bytes : strides[axis - 1];
    tensor.step[axis] = static_cast<std::uint8_t>(step);
    tensor.count[axis] = static_cast<std::uint16_t>((box[axis] + step - 1) / step);
  }
  if (!is_valid(tensor, {extents, rank}, {box, rank}, {element_strides, rank})) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *map = {};
  std::memcpy(map, &tensor, sizeof tensor);
  return CUDA_SUCCESS;
}

std::size_t TensorDescription::box_bytes() const {
  std::size_t bytes = element_bytes;
  for (int axis = 0; axis < rank; ++axis) bytes *= count[axis];
  return bytes;
}

// A line of swizzled_bytes holds chunks of 16 bytes, whose number is changed by that of the group
// of 128 bytes that it lies in.
unsigned TensorDescription::swizzle(unsigned place) const {
  const unsigned mask = swizzled_bytes / 16u - 1;
  return place ^ ((place >> 7 & mask) << 4);
}

TensorDescription decode_tensor_map(const void* map, std::size_t coordinates) {
  TensorDescription tensor;
  std::memcpy(&tensor, map, sizeof tensor);
  if (tensor.mark != kMark) {
    throw Violation("gets a tensor map that encode_tensor_map() has not written");
  }
  if (coordinates != tensor.rank) {
    throw Violation(
        fmt::format("gives {} coordinates for a tensor map of {} axes", coordinates, tensor.rank));
  }
  return tensor;
}

}  // namespace attnjit::executor
