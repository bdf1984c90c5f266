#include <functional>
#include <numeric>

#include "arguments.hpp"
#include "tensor_arguments.hpp"

namespace attnjit::python {

MergeCall::MergeCall(Arguments& arguments, TensorReader& reader) : reader_(reader) {
  PyObject* const parts_object = arguments.next();
  const DeviceTensor parts = reader.read(parts_object, "parts");
  device_ = parts.device;
  args_.parts = whole(parts, "parts");
  args_.part_stride = PyLong_AsLongLong(arguments.next());
  args_.num_parts = PyLong_AsLongLong(arguments.next());
  if (PyErr_Occurred() != nullptr) throw PythonError{};
  args_.part_lses = read_lse(arguments.next(), "part_lses", args_.num_parts);
  if (PyObject* carry = arguments.next(); !is_none(carry)) {
    carry_ = whole(read(carry, "carry"), "carry");
    args_.carry = &carry_;
  }
  args_.carry_lse = read_lse(arguments.next(), "carry_lse", 1);
  args_.out = whole(read(arguments.next(), "out"), "out");
  args_.lse = read_lse(arguments.next(), "lse", 1);
  stream_ = stream_of(reader, arguments.next(), parts_object, device_);
}

PrepareMaskCall::PrepareMaskCall(Arguments& arguments, TensorReader& reader) {
  PyObject* const mask_object = arguments.next();
  const DeviceTensor mask = reader.read(mask_object, "mask");
  device_ = mask.device;
  args_.mask = broadcast(mask, "mask");
  args_.for_backward = arguments.flag() ? 1 : 0;
  const DeviceTensor memory = reader.read(arguments.next(), "memory");
  if (memory.device != device_) {
    raise(PyExc_ValueError, "memory: it is on cuda:%d; the mask is on cuda:%d", int{memory.device},
          int{device_});
  }
  args_.memory = bytes(memory, "memory");
  memory_bytes_ = memory.shape[0];
  stream_ = stream_of(reader, arguments.next(), mask_object, device_);
}

DeviceTensor MergeCall::read(PyObject* object, const char* name) const {
  const DeviceTensor tensor = reader_.read(object, name);
  if (tensor.device != device_) {
    raise(PyExc_ValueError, "%s: it is on cuda:%d; the parts are on cuda:%d", name,
          int{tensor.device}, int{device_});
  }
  return tensor;
}

float* MergeCall::read_lse(PyObject* object, const char* name, std::int64_t parts) const {
  if (is_none(object)) return nullptr;
  const DeviceTensor tensor = read(object, name);
  if (!is(tensor.dtype, dlpack::kFloat, 32)) raise_dtype(name, tensor.dtype, "float32");
  const std::int64_t* const shape = args_.parts.shape;
  const std::int64_t rows = shape[0] * shape[1] * shape[2];
  const std::int64_t elements = std::accumulate(tensor.shape, tensor.shape + tensor.ndim,
                                                std::int64_t{1}, std::multiplies<>());
  if (elements != parts * rows || !is_contiguous(tensor)) {
    raise(PyExc_ValueError, "%s: expected a contiguous tensor with an element per row of %s", name,
          parts == 1 ? "out" : "each part");
  }
  return static_cast<float*>(tensor.data);
}

}  // namespace attnjit::python
