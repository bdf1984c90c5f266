#include "device_tensor.hpp"

#include <algorithm>
#include <span>

namespace attnjit::python {
namespace {

constexpr std::size_t kMaxKnownTypes = 8;

// The table of the version that this module knows, or null.
const dlpack::ExchangeApi* supported(const dlpack::ExchangeApiHeader* header) {
  while (header != nullptr && header->version.major != dlpack::kMajorVersion) {
    header = header->previous;
  }
  return reinterpret_cast<const dlpack::ExchangeApi*>(header);
}

DeviceTensor device_tensor(const dlpack::Tensor& tensor, const char* name) {
  if (tensor.device.type != dlpack::kCuda) {
    raise(PyExc_ValueError, "%s: it is not on a CUDA device; move it there with .cuda()", name);
  }
  if (tensor.ndim < 0 || tensor.ndim > DeviceTensor::kMaxAxes) {
    raise(PyExc_ValueError, "%s: it has %d axes; expected at most %d", name, int{tensor.ndim},
          DeviceTensor::kMaxAxes);
  }
  DeviceTensor result{};
  result.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  result.dtype = tensor.dtype;
  result.device = tensor.device.id;
  result.ndim = tensor.ndim;
  std::copy_n(tensor.shape, tensor.ndim, result.shape);
  std::int64_t dense = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    result.strides[axis] = tensor.strides == nullptr ? dense : tensor.strides[axis];
    dense *= tensor.shape[axis];
  }
  return result;
}

void read_integers(PyObject* tuple, int ndim, std::int64_t* values) {
  for (int axis = 0; axis < ndim; ++axis) {
    values[axis] = PyLong_AsLongLong(PyTuple_GetItem(tuple, axis));
  }
  if (PyErr_Occurred() != nullptr) throw PythonError{};
}

DeviceTensor described_tensor(PyObject* description, const char* name) {
  unsigned long long address = 0;
  unsigned char code = 0;
  unsigned char bits = 0;
  int device_type = 0;
  int device_id = 0;
  PyObject* shape = nullptr;
  PyObject* strides = nullptr;
  if (PyArg_ParseTuple(description, "KbbiiO!O!", &address, &code, &bits, &device_type, &device_id,
                       &PyTuple_Type, &shape, &PyTuple_Type, &strides) == 0) {
    throw PythonError{};
  }
  const auto ndim =
      static_cast<int>(std::min<Py_ssize_t>(PyTuple_Size(shape), DeviceTensor::kMaxAxes + 1));
  if (PyTuple_Size(strides) != PyTuple_Size(shape)) {
    raise(PyExc_ValueError, "%s: its shape and strides differ in length", name);
  }
  std::int64_t sizes[DeviceTensor::kMaxAxes + 1];
  std::int64_t steps[DeviceTensor::kMaxAxes + 1];
  read_integers(shape, ndim, sizes);
  read_integers(strides, ndim, steps);
  return device_tensor({reinterpret_cast<void*>(address),
                        {device_type, device_id},
                        ndim,
                        {code, bits, 1},
                        sizes,
                        steps,
                        0},
                       name);
}

}  // namespace

bool is_contiguous(const DeviceTensor& tensor) {
  const std::span sizes(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  std::int64_t dense = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != dense) return false;
    dense *= tensor.shape[axis];
  }
  return true;
}

const dlpack::ExchangeApi* TensorReader::exchange_api(PyTypeObject* type) {
  auto* const key = reinterpret_cast<PyObject*>(type);
  for (const auto& [known, api] : known_types_) {
    if (known.get() == key) return api;
  }
  const Object capsule(PyObject_GetAttrString(key, "__dlpack_c_exchange_api__"));
  if (capsule == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  const void* pointer = PyCapsule_GetPointer(capsule.get(), dlpack::kCapsuleName);
  if (pointer == nullptr) throw PythonError{};
  const auto* const api = supported(static_cast<const dlpack::ExchangeApiHeader*>(pointer));
  if (api != nullptr && known_types_.size() < kMaxKnownTypes) {
    known_types_.emplace_back(new_reference(key), api);
  }
  return api;
}

DeviceTensor TensorReader::read(PyObject* object, const char* name) {
  if (PyTuple_Check(object)) return described_tensor(object, name);
  const dlpack::ExchangeApi* const api = exchange_api(Py_TYPE(object));
  if (api == nullptr) {
    raise(PyExc_TypeError, "%s: expected a tensor with __dlpack_c_exchange_api__, not %R", name,
          reinterpret_cast<PyObject*>(Py_TYPE(object)));
  }
  dlpack::Tensor tensor{};
  if (api->tensor_from_object(object, &tensor) != 0) throw PythonError{};
  return device_tensor(tensor, name);
}

DeviceTensor TensorReader::read_rows(PyObject* object, const char* name, Object& copy) {
  const DeviceTensor tensor = read(object, name);
  if (tensor.ndim == 0 || tensor.strides[tensor.ndim - 1] == 1 || PyTuple_Check(object)) {
    return tensor;
  }
  note_copy(name);
  copy = checked(PyObject_CallMethod(object, "contiguous", nullptr));
  return read(copy.get(), name);
}

void TensorReader::note_copy(const char* name) {
  if (!copied_.insert(name).second) return;
  if (PyErr_WarnFormat(PyExc_UserWarning, 1,
                       "attnjit copies %s in each call: the elements of a row are no neighbours; "
                       "make its last axis the one of stride 1",
                       name) != 0) {
    throw PythonError{};
  }
}

PyObject* TensorReader::contiguous(PyObject* object, const char* name, Object& copy) {
  if (is_none(object) || PyTuple_Check(object) || is_contiguous(read(object, name))) return object;
  copy = checked(PyObject_CallMethod(object, "contiguous", nullptr));
  return copy.get();
}

void* TensorReader::current_stream(PyObject* object, std::int32_t device) {
  const dlpack::ExchangeApi* const api = exchange_api(Py_TYPE(object));
  if (api == nullptr)
    raise(PyExc_TypeError, "stream: expected an integer with tensors that are described");
  void* stream = nullptr;
  if (api->current_work_stream(dlpack::kCuda, device, &stream) != 0) throw PythonError{};
  return stream;
}

}  // namespace attnjit::python
