#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dlpack.hpp"
#include "object.hpp"

namespace attnjit::python {

/// A tensor of a GPU as it was read from a Python object, which keeps its memory alive.
struct DeviceTensor {
  static constexpr int kMaxAxes = 4;

  void* data;
  dlpack::DataType dtype;
  std::int32_t device;  // ordinal of the GPU
  int ndim;
  std::int64_t shape[kMaxAxes];
  std::int64_t strides[kMaxAxes];  // in elements
};

/// Whether elements follow one another in the order of the axes.
bool is_contiguous(const DeviceTensor& tensor);

/// Reads tensors of types that carry `__dlpack_c_exchange_api__`, and tuples
/// (address, code, bits, device_type, device_id, shape, strides) with DLPack's numbers.
/// Needs the GIL.
class TensorReader {
 public:
  /// Raises TypeError for anything else, ValueError for a tensor of more than four axes and for one
  /// that lies on no GPU. Messages begin with `name`.
  DeviceTensor read(PyObject* object, const char* name);

  /// As read(), of what `contiguous()` of the object returns where the elements of a row are no
  /// neighbours; `copy` then keeps that, and the first time for a name a warning tells. A tuple is
  /// read as it is.
  DeviceTensor read_rows(PyObject* object, const char* name, Object& copy);

  /// `object`, or what its `contiguous()` returns where its elements are apart; `copy` then keeps
  /// that. None and tuples are returned as they are.
  PyObject* contiguous(PyObject* object, const char* name, Object& copy);

  /// The stream on which the framework of `object` works now. Raises TypeError for a tuple.
  void* current_stream(PyObject* object, std::int32_t device);

 private:
  const dlpack::ExchangeApi* exchange_api(PyTypeObject* type);
  /// Warns that calls copy the tensor of that name, the first time.
  void note_copy(const char* name);

  std::vector<std::pair<Object, const dlpack::ExchangeApi*>> known_types_;
  std::set<std::string> copied_;  ///< names
};

}  // namespace attnjit::python
