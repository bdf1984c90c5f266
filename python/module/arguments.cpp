#include "arguments.hpp"

#include <algorithm>
#include <cstdio>

namespace attnjit::python {
namespace {

constexpr int kAxes = 4;

[[noreturn]] void raise_dtype(const char* name, dlpack::DataType dtype, const char* expected) {
  const char* const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const char* const kind =
      dtype.code < std::size(kinds) ? kinds[dtype.code] : "float8 or narrower, ";
  raise(PyExc_TypeError, "%s: dtype is %s%d; expected %s", name, kind, int{dtype.bits}, expected);
}

bool is(dlpack::DataType dtype, dlpack::Code code, int bits) {
  return dtype.code == code && dtype.bits == bits && dtype.lanes == 1;
}

std::int32_t attnjit_dtype(const char* name, dlpack::DataType dtype) {
  if (is(dtype, dlpack::kBfloat, 16)) return ATTNJIT_BFLOAT16;
  if (is(dtype, dlpack::kFloat, 16)) return ATTNJIT_FLOAT16;
  if (is(dtype, dlpack::kFloat, 32)) return ATTNJIT_FLOAT32;
  if (is(dtype, dlpack::kBool, 8) || is(dtype, dlpack::kUInt, 8)) return ATTNJIT_BOOL;
  raise_dtype(name, dtype, "bfloat16, float16, float32 or bool");
}

DeviceTensor read_on(std::int32_t device, TensorReader& reader, PyObject* object,
                     const char* name) {
  const DeviceTensor tensor = reader.read(object, name);
  if (tensor.device != device) {
    raise(PyExc_ValueError, "%s: it is on cuda:%d; q is on cuda:%d", name, int{tensor.device},
          int{device});
  }
  return tensor;
}

// A tensor of four axes, or of fewer that broadcast over the first ones.
attnjit_tensor broadcast(const DeviceTensor& tensor, const char* name) {
  attnjit_tensor result{tensor.data, attnjit_dtype(name, tensor.dtype), {1, 1, 1, 1}, {0, 0, 0, 0}};
  const int absent = kAxes - tensor.ndim;
  std::copy_n(tensor.shape, tensor.ndim, result.shape + absent);
  std::copy_n(tensor.strides, tensor.ndim, result.strides + absent);
  return result;
}

attnjit_tensor whole(const DeviceTensor& tensor, const char* name) {
  if (tensor.ndim != kAxes) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected (batch, head, sequence, feature)", name,
          tensor.ndim);
  }
  return broadcast(tensor, name);
}

// Where the elements of a contiguous tensor begin that the C API takes as a pointer.
void* array(const DeviceTensor& tensor, const char* name, dlpack::Code code,
            const attnjit_tensor& q, int ndim) {
  if (!is(tensor.dtype, code, 32)) {
    raise_dtype(name, tensor.dtype, code == dlpack::kInt ? "int32" : "float32");
  }
  if (tensor.ndim != ndim || !std::equal(tensor.shape, tensor.shape + ndim, q.shape) ||
      !is_contiguous(tensor)) {
    raise(PyExc_ValueError, "%s: expected a contiguous tensor of shape %s", name,
          ndim == 1 ? "(batch,)" : "(batch, heads of q, length of q)");
  }
  return tensor.data;
}

}  // namespace

Arguments::Arguments(PyObject* const* values, Py_ssize_t count, Py_ssize_t expected)
    : next_(values) {
  if (count != expected) raise(PyExc_TypeError, "expected %zd arguments, not %zd", expected, count);
}

bool Arguments::flag() {
  const int value = PyObject_IsTrue(next());
  if (value < 0) throw PythonError{};
  return value != 0;
}

std::int64_t Arguments::integer() {
  const long long value = PyLong_AsLongLong(next());
  if (value == -1 && PyErr_Occurred() != nullptr) throw PythonError{};
  return value;
}

ForwardCall::ForwardCall(Arguments& arguments, TensorReader& reader) {
  PyObject* const q_object = arguments.next();
  const DeviceTensor q = reader.read(q_object, "q");
  device_ = q.device;
  args_.q = whole(q, "q");
  const auto read = [&](PyObject* object, const char* name) {
    return read_on(device_, reader, object, name);
  };
  args_.k = whole(read(arguments.next(), "k"), "k");
  args_.v = whole(read(arguments.next(), "v"), "v");
  args_.out = whole(read(arguments.next(), "out"), "out");
  if (PyObject* lse = arguments.next(); !is_none(lse)) {
    args_.lse = static_cast<float*>(array(read(lse, "lse"), "lse", dlpack::kFloat, args_.q, 3));
  }
  if (PyObject* mask = arguments.next(); !is_none(mask)) {
    mask_ = broadcast(read(mask, "mask"), "mask");
    args_.mask = &mask_;
  }
  if (PyObject* bias = arguments.next(); !is_none(bias)) {
    bias_ = broadcast(read(bias, "bias"), "bias");
    args_.bias = &bias_;
  }
  const auto lengths = [&](const char* name) -> const std::int32_t* {
    PyObject* const object = arguments.next();
    if (is_none(object)) return nullptr;
    return static_cast<const std::int32_t*>(
        array(read(object, name), name, dlpack::kInt, args_.q, 1));
  };
  args_.seqlens_q = lengths("seqlens_q");
  args_.seqlens_kv = lengths("seqlens_kv");
  if (PyObject* scale = arguments.next(); !is_none(scale)) {
    const double value = PyFloat_AsDouble(scale);
    if (PyErr_Occurred() != nullptr) throw PythonError{};
    args_.has_scale = 1;
    args_.scale = static_cast<float>(value);
  }
  args_.causal = arguments.flag() ? 1 : 0;
  args_.diagonal = static_cast<std::int32_t>(arguments.integer());
  args_.window_left = arguments.integer();
  args_.window_right = arguments.integer();
  args_.has_window = args_.window_left != -1 || args_.window_right != -1 ? 1 : 0;
  PyObject* const stream = arguments.next();
  void* const handle =
      is_none(stream) ? reader.current_stream(q_object, device_) : PyLong_AsVoidPtr(stream);
  if (PyErr_Occurred() != nullptr) throw PythonError{};
  stream_ = static_cast<CUstream_st*>(handle);
}

BackwardCall::BackwardCall(Arguments& arguments, TensorReader& reader)
    : forward_(arguments, reader) {
  args_.forward = &forward_.args();
  const auto read = [&](PyObject* object, const char* name) {
    return read_on(device(), reader, object, name);
  };
  args_.dout = whole(read(arguments.next(), "dout"), "dout");
  if (PyObject* dlse = arguments.next(); !is_none(dlse)) {
    args_.dlse = static_cast<const float*>(
        array(read(dlse, "dlse"), "dlse", dlpack::kFloat, forward_.args().q, 3));
  }
  args_.dq = whole(read(arguments.next(), "dq"), "dq");
  args_.dk = whole(read(arguments.next(), "dk"), "dk");
  args_.dv = whole(read(arguments.next(), "dv"), "dv");
  if (PyObject* dbias = arguments.next(); !is_none(dbias)) {
    dbias_ = broadcast(read(dbias, "dbias"), "dbias");
    args_.dbias = &dbias_;
  }
  args_.deterministic = arguments.flag() ? 1 : 0;
}

}  // namespace attnjit::python
