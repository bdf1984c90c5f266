#pragma once
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace attnjit::executor {

/// Takes the place of the driver's cuTensorMapEncodeTiled: writes a description of the tensor that
/// tensor_load() and tensor_store_if() of the executor understand. Returns CUDA_ERROR_INVALID_VALUE
/// for what the driver would refuse, and for interleaved layouts and fills other than zeros, which
/// the executor lacks.
CUresult CUDAAPI encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                   void* address, const cuuint64_t* extents,
                                   const cuuint64_t* strides, const cuuint32_t* box,
                                   const cuuint32_t* element_strides,
                                   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                   CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

/// The content of a map. Axes are innermost first.
struct TensorDescription {
  static constexpr int kMaxRank = 5;

  std::array<char, 8> mark;  ///< tells a map from other bytes
  std::byte* address;
  std::array<std::uint32_t, kMaxRank> last;    ///< extent - 1
  std::array<std::uint64_t, kMaxRank> stride;  ///< bytes
  std::array<std::uint16_t, kMaxRank> count;   ///< of elements of a box
  std::array<std::uint8_t, kMaxRank> step;     ///< between elements of a box
  std::uint8_t rank;
  std::uint8_t element_bytes;
  std::uint8_t swizzled_bytes;  ///< of a line; 16: not swizzled

  std::size_t box_bytes() const;
  /// The place in shared memory of the byte that would be at `place` without the swizzle.
  unsigned swizzle(unsigned place) const;
};

/// The description in `map`, a kernel's parameter that is used with so many coordinates. Throws
/// Violation where encode_tensor_map() has not written it, and for another number of axes.
TensorDescription decode_tensor_map(const void* map, std::size_t coordinates);

}  // namespace attnjit::executor
