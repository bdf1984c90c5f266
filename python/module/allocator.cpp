#include "allocator.hpp"

#include <array>

namespace attnjit::python {
namespace {

constexpr Py_ssize_t kDTypes = 4;
constexpr std::size_t kMaxAxes = 4;

Object integers(std::span<const std::int64_t> values) {
  Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Object value = checked(PyLong_FromLongLong(values[i]));
    PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), value.release());
  }
  return tuple;
}

// Views that repeat their elements can have sizes whose product no integer holds.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    raise(PyExc_ValueError, "the result would have more than 2^63 elements");
  }
  return result;
}

}  // namespace

Allocator::Allocator(PyObject* make, PyObject* make_on_current, PyObject* dtypes)
    : make_(new_reference(make)), dtypes_(new_reference(dtypes)) {
  if (!is_none(make_on_current)) make_on_current_ = new_reference(make_on_current);
  if (!PyTuple_Check(dtypes) || PyTuple_Size(dtypes) != kDTypes) {
    raise(PyExc_TypeError, "dtypes: expected a tuple of %zd", kDTypes);
  }
}

Object Allocator::strided(const DeviceGuard& guard, std::int32_t dtype,
                          std::span<const std::int64_t> sizes,
                          std::span<const std::int64_t> strides) const {
  const Object shape = integers(sizes);
  const Object steps = integers(strides);
  PyObject* const framework_dtype = PyTuple_GetItem(dtypes_.get(), dtype);
  if (make_on_current_ != nullptr && guard.was_current()) {
    return checked(PyObject_CallFunctionObjArgs(make_on_current_.get(), shape.get(), steps.get(),
                                                framework_dtype, nullptr));
  }
  const Object device = checked(PyLong_FromLong(guard.ordinal()));
  return checked(PyObject_CallFunctionObjArgs(make_.get(), shape.get(), steps.get(),
                                              framework_dtype, device.get(), nullptr));
}

Object Allocator::contiguous(const DeviceGuard& guard, std::int32_t dtype,
                             std::span<const std::int64_t> sizes) const {
  std::array<std::int64_t, kMaxAxes> strides{};
  std::int64_t dense = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = dense;
    dense = product(dense, sizes[axis]);
  }
  return strided(guard, dtype, sizes, std::span(strides).first(sizes.size()));
}

Object Allocator::rows(const DeviceGuard& guard, const attnjit_tensor& like, std::int64_t width,
                       bool sequence_major) const {
  const std::array sizes{like.shape[0], like.shape[1], like.shape[2], width};
  if (!sequence_major) return contiguous(guard, like.dtype, sizes);
  const std::int64_t position = product(sizes[1], width);
  const std::array strides{product(sizes[2], position), width, position, std::int64_t{1}};
  return strided(guard, like.dtype, sizes, strides);
}

}  // namespace attnjit::python
