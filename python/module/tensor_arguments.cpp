#include "tensor_arguments.hpp"

#include <algorithm>

namespace attnjit::python {
namespace {

struct Dtype {
  dlpack::Code code;
  int bits;
  std::int32_t number;  // of the C API
};

// One of the dtypes that all tensors may have, or `another`.
std::int32_t dtype_of(const char* name, dlpack::DataType dtype, Dtype another,
                      const char* expected) {
  for (const Dtype& each :
       {Dtype{dlpack::kBfloat, 16, ATTNJIT_BFLOAT16}, Dtype{dlpack::kFloat, 16, ATTNJIT_FLOAT16},
        Dtype{dlpack::kFloat, 32, ATTNJIT_FLOAT32}, Dtype{dlpack::kBool, 8, ATTNJIT_BOOL},
        another}) {
    if (is(dtype, each.code, each.bits)) return each.number;
  }
  raise_dtype(name, dtype, expected);
}

std::int32_t attnjit_dtype(const char* name, dlpack::DataType dtype) {
  return dtype_of(name, dtype, {dlpack::kUInt, 8, ATTNJIT_BOOL},
                  "bfloat16, float16, float32 or bool");
}

std::int32_t operand_dtype(const char* name, dlpack::DataType dtype) {
  return dtype_of(name, dtype, {dlpack::kInt, 32, ATTNJIT_INT32},
                  "bfloat16, float16, float32, int32 or bool");
}

}  // namespace

void raise_dtype(const char* name, dlpack::DataType dtype, const char* expected) {
  const char* const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const char* const kind =
      dtype.code < std::size(kinds) ? kinds[dtype.code] : "float8 or narrower, ";
  raise(PyExc_TypeError, "%s: dtype is %s%d; expected %s", name, kind, int{dtype.bits}, expected);
}

bool is(dlpack::DataType dtype, dlpack::Code code, int bits) {
  return dtype.code == code && dtype.bits == bits && dtype.lanes == 1;
}

void check_device(const DeviceTensor& tensor, const char* name, std::int32_t device) {
  if (tensor.device == device) return;
  raise(PyExc_ValueError, "%s: it is on cuda:%d; q is on cuda:%d", name, int{tensor.device},
        int{device});
}

attnjit_tensor broadcast(const DeviceTensor& tensor, const char* name) {
  attnjit_tensor result{tensor.data, attnjit_dtype(name, tensor.dtype), {1, 1, 1, 1}, {0, 0, 0, 0}};
  const int absent = kAxes - tensor.ndim;
  std::copy_n(tensor.shape, tensor.ndim, result.shape + absent);
  std::copy_n(tensor.strides, tensor.ndim, result.strides + absent);
  return result;
}

attnjit_operand operand(const DeviceTensor& tensor, const char* name) {
  attnjit_operand result = ATTNJIT_OPERAND_INIT;
  result.name = name;
  result.rank = tensor.ndim;
  result.tensor = {tensor.data, operand_dtype(name, tensor.dtype), {1, 1, 1, 1}, {0, 0, 0, 0}};
  std::copy_n(tensor.shape, tensor.ndim, result.tensor.shape);
  std::copy_n(tensor.strides, tensor.ndim, result.tensor.strides);
  return result;
}

attnjit_tensor per_head(const DeviceTensor& tensor, const char* name) {
  if (tensor.ndim != 1) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected (heads of q,)", name, tensor.ndim);
  }
  return {tensor.data,
          attnjit_dtype(name, tensor.dtype),
          {1, tensor.shape[0], 1, 1},
          {0, tensor.strides[0], 0, 0}};
}

attnjit_tensor slopes(const DeviceTensor& tensor, const char* name) {
  if (tensor.ndim == 1) return per_head(tensor, name);
  if (tensor.ndim != 2) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected (heads of q,) or (batch, heads of q)",
          name, tensor.ndim);
  }
  return {tensor.data,
          attnjit_dtype(name, tensor.dtype),
          {tensor.shape[0], tensor.shape[1], 1, 1},
          {tensor.strides[0], tensor.strides[1], 0, 0}};
}

attnjit_tensor whole(const DeviceTensor& tensor, const char* name) {
  if (tensor.ndim != kAxes) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected (batch, head, sequence, feature)", name,
          tensor.ndim);
  }
  return broadcast(tensor, name);
}

void* array(const DeviceTensor& tensor, const char* name, dlpack::Code code,
            std::span<const std::int64_t> shape, const char* shape_in_words) {
  if (!is(tensor.dtype, code, 32)) {
    raise_dtype(name, tensor.dtype, code == dlpack::kInt ? "int32" : "float32");
  }
  if (!std::ranges::equal(std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim)), shape) ||
      !is_contiguous(tensor)) {
    raise(PyExc_ValueError, "%s: expected a contiguous tensor of shape %s", name, shape_in_words);
  }
  return tensor.data;
}

void* bytes(const DeviceTensor& tensor, const char* name) {
  if (!is(tensor.dtype, dlpack::kUInt, 8)) raise_dtype(name, tensor.dtype, "uint8");
  if (tensor.ndim != 1 || !is_contiguous(tensor)) {
    raise(PyExc_ValueError, "%s: expected contiguous memory of a prepared mask, (bytes,)", name);
  }
  return tensor.data;
}

CUstream_st* stream_of(TensorReader& reader, PyObject* stream, PyObject* tensor,
                       std::int32_t device) {
  void* const handle =
      is_none(stream) ? reader.current_stream(tensor, device) : PyLong_AsVoidPtr(stream);
  if (PyErr_Occurred() != nullptr) throw PythonError{};
  return static_cast<CUstream_st*>(handle);
}

}  // namespace attnjit::python
