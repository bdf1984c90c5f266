#pragma once
#include <cstdint>
#include <span>

#include "attnjit.h"
#include "device_tensor.hpp"
#include "object.hpp"

/// Tensors of Python as arguments of the C API. Each function raises TypeError or ValueError, whose
/// message begins with `name`, for a tensor that cannot be one.
namespace attnjit::python {

inline constexpr int kAxes = 4;

/// Raises TypeError that says which dtype was expected.
[[noreturn]] void raise_dtype(const char* name, dlpack::DataType dtype, const char* expected);

bool is(dlpack::DataType dtype, dlpack::Code code, int bits);

/// Raises ValueError unless `tensor` is on `device`, that of q.
void check_device(const DeviceTensor& tensor, const char* name, std::int32_t device);

/// A tensor of four axes, or of fewer that broadcast over the first ones.
attnjit_tensor broadcast(const DeviceTensor& tensor, const char* name);

/// A tensor of exactly four axes.
attnjit_tensor whole(const DeviceTensor& tensor, const char* name);

/// A tensor of up to four axes that expressions read, whose axes are the first ones.
attnjit_operand operand(const DeviceTensor& tensor, const char* name);

/// A number for each query head, (heads,).
attnjit_tensor per_head(const DeviceTensor& tensor, const char* name);

/// Slopes of ALiBi, (heads,) or (batch, heads).
attnjit_tensor slopes(const DeviceTensor& tensor, const char* name);

/// Where the elements of a contiguous tensor begin that the C API takes as a pointer.
void* array(const DeviceTensor& tensor, const char* name, dlpack::Code code,
            std::span<const std::int64_t> shape, const char* shape_in_words);

/// Where the memory of a prepared mask begins, (bytes,) uint8.
void* bytes(const DeviceTensor& tensor, const char* name);

/// `stream` as an integer, or None for the one on which the framework of `tensor` works now.
CUstream_st* stream_of(TensorReader& reader, PyObject* stream, PyObject* tensor,
                       std::int32_t device);

}  // namespace attnjit::python
