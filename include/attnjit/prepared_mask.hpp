#pragma once
#include <array>
#include <cstdint>

#include "attnjit/tensor.hpp"

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// A mask as Context::prepare_mask() has written it into memory of the caller's: a bit per element,
/// and a class for each 64 queries by 64 keys. It serves calls of any head dims, kernels and
/// configurations, stays valid when they are tuned, and reads the mask no more. Copies share the
/// memory, which the caller keeps for as long as calls or captured graphs read it.
struct PreparedMask {
  const void* data = nullptr;  ///< aligned to 16 bytes
  /// Planes over the batch, heads, queries and keys, as ForwardArgs::mask has them; an axis along
  /// which the mask does not differ is 1, whatever its size was.
  std::array<std::int64_t, 4> shape{};
  bool for_backward = false;  ///< has the bits by keys too, which backward() reads
};

/// The mask to be prepared, and the memory for the result.
struct PrepareMaskArgs {
  Tensor mask;  ///< kBool, true = keep: [n, heads, queries|1, keys], any strides, of 2 keys or more
  /// Whether backward() is to take it. A mask over keys alone has the same form either way.
  bool for_backward = false;
  void* memory = nullptr;  ///< prepared_mask_size() bytes on the device, aligned to 16
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
