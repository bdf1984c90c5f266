#pragma once
#include <cstdint>
#include <span>

#include "attnjit.h"
#include "device_guard.hpp"
#include "object.hpp"

namespace attnjit::python {

/// Makes uninitialised tensors by functions of the framework that calls come from.
class Allocator {
 public:
  /// `make(sizes, strides, dtype, device)` takes the ordinal of a GPU; `make_on_current(sizes,
  /// strides, dtype)` makes a tensor on the current one sooner, and may be None. `dtypes` is a
  /// tuple by the numbers of ATTNJIT_FLOAT16 and the others, with bytes for ATTNJIT_BOOL. Raises
  /// TypeError where it is not.
  Allocator(PyObject* make, PyObject* make_on_current, PyObject* dtypes);

  /// A tensor of these sizes and strides, in elements, on the device of `guard`.
  Object strided(const DeviceGuard& guard, std::int32_t dtype, std::span<const std::int64_t> sizes,
                 std::span<const std::int64_t> strides) const;

  /// The same, whose elements follow one another in the order of the axes.
  Object contiguous(const DeviceGuard& guard, std::int32_t dtype,
                    std::span<const std::int64_t> sizes) const;

  /// A tensor of the first three sizes, dtype and device of `like` and rows of `width` elements,
  /// dense as (batch, sequence, head, feature) if `sequence_major`, else in the order of its axes.
  Object rows(const DeviceGuard& guard, const attnjit_tensor& like, std::int64_t width,
              bool sequence_major) const;

 private:
  Object make_;
  Object make_on_current_;
  Object dtypes_;
};

/// Whether a step along the sequence is longer than one along the heads.
inline bool is_sequence_major(const attnjit_tensor& tensor) {
  return tensor.strides[1] < tensor.strides[2];
}

}  // namespace attnjit::python
