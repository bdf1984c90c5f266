#include "tensors.hpp"

#include <torch/csrc/stable/ops.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace attnjit::torch_library {
namespace {

using torch::headeronly::ScalarType;

constexpr int kAxes = 4;

[[noreturn]] void refuse(const char* name, const std::string& why) {
  throw std::runtime_error(std::string(name) + ": " + why);
}

std::int32_t dtype_of(const Tensor& tensor, const char* name) {
  switch (tensor.scalar_type()) {
    case ScalarType::Half:
      return ATTNJIT_FLOAT16;
    case ScalarType::BFloat16:
      return ATTNJIT_BFLOAT16;
    case ScalarType::Float:
      return ATTNJIT_FLOAT32;
    case ScalarType::Bool:
    case ScalarType::Byte:
      return ATTNJIT_BOOL;
    case ScalarType::Int:
      return ATTNJIT_INT32;
    case ScalarType::Long:
      return ATTNJIT_INT64;
    default:
      refuse(name,
             "its dtype is not taken; expected float16, bfloat16, float32, int32, int64 or bool");
  }
}

// The axes of `tensor` as axes `first` and following ones of four.
attnjit_tensor placed(const Tensor& tensor, const char* name, int device, int first) {
  check_device(tensor, name, device);
  attnjit_tensor result{tensor.data_ptr(), dtype_of(tensor, name), {1, 1, 1, 1}, {0, 0, 0, 0}};
  for (int axis = 0; axis < tensor.dim(); ++axis) {
    result.shape[first + axis] = tensor.size(axis);
    result.strides[first + axis] = tensor.stride(axis);
  }
  return result;
}

void* row_of(const Tensor& tensor, const char* name, int device, ScalarType dtype,
             const char* expected) {
  check_device(tensor, name, device);
  if (tensor.scalar_type() != dtype || tensor.dim() != 1 || !tensor.is_contiguous()) {
    refuse(name, std::string("expected a contiguous tensor of one axis, ") + expected);
  }
  return tensor.data_ptr();
}

void check_axes(const Tensor& tensor, const char* name, int least, int most, const char* expected) {
  if (tensor.dim() >= least && tensor.dim() <= most) return;
  refuse(name, "it has " + std::to_string(tensor.dim()) + " axes; expected " + expected);
}

}  // namespace

void check_device(const Tensor& tensor, const char* name, int device) {
  if (!tensor.is_cuda()) refuse(name, "it is not on a CUDA device; attnjit computes on these");
  if (tensor.get_device() == device) return;
  refuse(name, "it is on cuda:" + std::to_string(tensor.get_device()) +
                   "; q is on cuda:" + std::to_string(device));
}

attnjit_tensor broadcast(const Tensor& tensor, const char* name, int device) {
  check_axes(tensor, name, 0, kAxes, "at most 4");
  return placed(tensor, name, device, kAxes - static_cast<int>(tensor.dim()));
}

attnjit_tensor whole(const Tensor& tensor, const char* name, int device) {
  check_axes(tensor, name, kAxes, kAxes, "(batch, head, sequence, feature)");
  return placed(tensor, name, device, 0);
}

attnjit_tensor per_head(const Tensor& tensor, const char* name, int device) {
  check_axes(tensor, name, 1, 2, "(heads of q,), or before that a batch axis");
  return placed(tensor, name, device, 2 - static_cast<int>(tensor.dim()));
}

attnjit_operand operand(const Tensor& tensor, const char* name, int device) {
  check_axes(tensor, name, 0, kAxes, "at most 4");
  attnjit_operand result = ATTNJIT_OPERAND_INIT;
  result.name = name;
  result.rank = static_cast<std::int32_t>(tensor.dim());
  result.tensor = placed(tensor, name, device, 0);
  return result;
}

attnjit_tensor selected_keys(const Tensor& tensor, const char* name, int device) {
  check_axes(tensor, name, 3, 3, "(batch, kv head, keys)");
  attnjit_tensor result = placed(tensor, name, device, 0);
  std::swap(result.shape[2], result.shape[3]);
  std::swap(result.strides[2], result.strides[3]);
  return result;
}

const std::int32_t* numbers(const Tensor& tensor, const char* name, int device) {
  return static_cast<const std::int32_t*>(row_of(tensor, name, device, ScalarType::Int, "int32"));
}

void* bytes(const Tensor& tensor, const char* name, int device) {
  return row_of(tensor, name, device, ScalarType::Byte, "uint8");
}

Tensor with_dense_rows(const Tensor& tensor) {
  const bool is_dense = tensor.dim() == 0 || tensor.stride(tensor.dim() - 1) == 1;
  return is_dense ? tensor : torch::stable::contiguous(tensor);
}

Tensor new_strided(ScalarType dtype, int device, std::span<const std::int64_t> sizes,
                   std::span<const std::int64_t> strides) {
  using torch::stable::detail::from;
  using torch::stable::detail::to;
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(),
      to<std::int32_t>(from(dtype)), aoti_torch_device_type_cuda(), device, &handle));
  return Tensor(handle);
}

Tensor new_contiguous(ScalarType dtype, int device, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t dense = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0; dense *= sizes[axis]) strides[axis] = dense;
  return new_strided(dtype, device, sizes, strides);
}

}  // namespace attnjit::torch_library
