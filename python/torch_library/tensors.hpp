#pragma once
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <span>

#include "attnjit.h"

namespace attnjit::torch_library {

using torch::stable::Tensor;

/// Throws std::runtime_error, whose message begins with `name`, unless the tensor is on device
/// `device` of CUDA.
void check_device(const Tensor& tensor, const char* name, int device);

/// A tensor of four axes, or of fewer that broadcast over the first ones. This and the following
/// functions throw as check_device() does, and for a tensor that cannot be read so.
attnjit_tensor broadcast(const Tensor& tensor, const char* name, int device);

/// A tensor of exactly four axes.
attnjit_tensor whole(const Tensor& tensor, const char* name, int device);

/// A number for each head, (heads,), or for each batch element and head, (batch, heads).
attnjit_tensor per_head(const Tensor& tensor, const char* name, int device);

/// A tensor of up to four axes that expressions read, whose axes are the first ones.
attnjit_operand operand(const Tensor& tensor, const char* name, int device);

/// Numbers of keys for each batch element and kv head, (batch, heads, keys).
attnjit_tensor selected_keys(const Tensor& tensor, const char* name, int device);

/// Where a contiguous int32 tensor of one axis begins.
const std::int32_t* numbers(const Tensor& tensor, const char* name, int device);

/// Where contiguous memory begins, (bytes,) uint8.
void* bytes(const Tensor& tensor, const char* name, int device);

/// The tensor, or a copy in which the elements of a row are neighbours.
Tensor with_dense_rows(const Tensor& tensor);

/// Uninitialised, on a device of CUDA; strides count elements.
Tensor new_strided(torch::headeronly::ScalarType dtype, int device,
                   std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

/// The same, whose elements follow one another in the order of the axes.
Tensor new_contiguous(torch::headeronly::ScalarType dtype, int device,
                      std::span<const std::int64_t> sizes);

}  // namespace attnjit::torch_library
