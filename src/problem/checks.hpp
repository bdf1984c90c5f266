#pragma once
// Rules that several problems share: each function throws Error(kInvalidProblem) that names the
// argument, what it has and what is allowed. Inline, for they are part of every call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "attnjit/error.hpp"
#include "problem/problem.hpp"

namespace attnjit::problem::checks {

template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kInvalidProblem, fmt::format(text, std::forward<Args>(args)...));
}

inline std::uintptr_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Whether all of these numbers, or'ed into one, are multiples of a power of two. No division: these
// checks are part of every call.
inline bool is_multiple(std::uint64_t numbers, int power_of_two) {
  return (numbers & static_cast<unsigned>(power_of_two - 1)) == 0;
}

// Unsigned, since |INT64_MIN| is no int64.
inline std::uint64_t magnitude(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  return number < 0 ? -bits : bits;
}

inline constexpr const char* kAxes[] = {"batch", "head", "sequence", "feature"};

inline bool empty_tensor(const Tensor& tensor) {
  return std::ranges::any_of(tensor.shape, [](std::int64_t size) { return size == 0; });
}

inline void check_memory(const char* what, const Tensor& tensor) {
  if (empty_tensor(tensor)) return;
  if (tensor.data == nullptr) reject("{}: data is null; expected a device address", what);
  const std::int64_t bytes = element_size(tensor.dtype);
  if (!is_multiple(address(tensor.data), bytes)) {
    reject("{}: address {} is not a multiple of its element size, {} bytes", what, tensor.data,
           bytes);
  }
}

// A size that every later computation can hold.
inline std::int32_t checked_size(const char* what, int axis, std::int64_t size, std::int64_t low,
                                 std::int64_t high) {
  if (size < low || size > high) {
    reject("{}: {} axis is {}; expected {} to {}", what, kAxes[axis], size, low, high);
  }
  return static_cast<std::int32_t>(size);
}

inline void expect_size(const char* what, const Tensor& tensor, int axis, std::int64_t expected,
                        const char* whose) {
  if (tensor.shape[axis] != expected) {
    reject("{}: {} axis is {}; expected {} ({})", what, kAxes[axis], tensor.shape[axis], expected,
           whose);
  }
}

// The strides of an empty tensor mean nothing: PyTorch calls it contiguous whatever they are.
inline void check_features(const char* what, const Tensor& tensor) {
  if (tensor.shape[3] > 1 && tensor.strides[3] != 1 && !empty_tensor(tensor)) {
    reject("{}: feature axis has stride {}; expected 1 (make the last axis contiguous)", what,
           tensor.strides[3]);
  }
}

// An axis that broadcasts or is full.
inline void expect_axis(const char* what, const char* axis, std::int64_t size, std::int64_t full,
                        const char* whose) {
  if (size != 1 && size != full) {
    reject("{}: {} axis is {}; expected 1 or {} ({})", what, axis, size, full, whose);
  }
}

inline void expect_dtype(const char* what, const Tensor& tensor, DType expected) {
  if (tensor.dtype != expected) {
    reject("{}: dtype is {}; expected {} (as q)", what, name(tensor.dtype), name(expected));
  }
}

inline RowStrides row_strides(const Tensor& tensor) {
  auto stride = [&](int axis) { return tensor.shape[axis] == 1 ? 0 : tensor.strides[axis]; };
  return {stride(0), stride(1), stride(2)};
}

// Whether every row starts on a 16-byte boundary, `strides` apart: the strides of all axes, or-ed.
// They must also suit a tensor map, which has none below 0 and none of 2^40 bytes.
inline bool rows_aligned(const Tensor& tensor, std::int64_t strides) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  const std::int64_t size = element_size(tensor.dtype);
  if (strides < 0 || strides >= kMostBytes / size) return false;
  return is_multiple(address(tensor.data) | static_cast<std::uint64_t>(strides * size), 16);
}
inline bool rows_aligned(const Tensor& tensor, const RowStrides& strides) {
  return rows_aligned(tensor, strides.batch | strides.head | strides.row);
}

// Two elements of an output must not share memory: axis by axis from the smallest stride on, each
// step must clear everything that the axes below it span.
inline bool overlaps(const Tensor& tensor) {
  std::array<std::pair<std::uint64_t, std::uint64_t>, 4> axes;  // |stride|, size
  for (int i = 0; i < 4; ++i) {
    axes[i] = {magnitude(tensor.strides[i]), static_cast<std::uint64_t>(tensor.shape[i])};
  }
  std::ranges::sort(axes);
  std::uint64_t span = 0;
  for (const auto& [stride, size] : axes) {
    if (size == 1) continue;
    std::uint64_t step = 0;
    if (stride <= span || __builtin_mul_overflow(stride, size - 1, &step) ||
        __builtin_add_overflow(span, step, &span)) {
      return true;
    }
  }
  return false;
}

inline void check_no_overlap(const char* what, const Tensor& tensor) {
  if (empty_tensor(tensor) || !overlaps(tensor)) return;
  reject(
      "{}: strides ({}, {}, {}, {}) make elements overlap; an output needs memory of its own for "
      "each element",
      what, tensor.strides[0], tensor.strides[1], tensor.strides[2], tensor.strides[3]);
}

inline void check_aligned_pointer(const char* what, const void* pointer) {
  if (address(pointer) % 4 != 0) {
    reject("{}: address {} is not a multiple of its element size, 4 bytes", what, pointer);
  }
}

}  // namespace attnjit::problem::checks
