#include "instance/host_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "tensor/half.hpp"

namespace attnjit::instance {
namespace {

// Odd bytes all ones and even bytes with the high bit set: any aligned 2 or 4 bytes are NaN of a
// payload that no arithmetic produces. The period is no power of two, so that a shifted copy of
// the pattern does not pass for it.
constexpr std::byte pattern_at(std::size_t offset) {
  return offset % 2 == 1 ? std::byte{0xff} : static_cast<std::byte>(0x81 + offset / 2 % 113);
}

std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

bool is_empty(const Tensor& view) {
  return std::any_of(view.shape.begin(), view.shape.end(), [](auto size) { return size <= 0; });
}

// Elements from the first to past the last.
std::int64_t extent(const Tensor& view) {
  if (is_empty(view)) {
    return 0;
  }
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    last += (view.shape[axis] - 1) * view.strides[axis];
  }
  return last + 1;
}

// Calls body(batch, head, row, element offset) for each row of the last axis.
template <typename Body>
void for_each_row(const Tensor& view, const Body& body) {
  for (std::int64_t b = 0; b < view.shape[0]; ++b) {
    for (std::int64_t h = 0; h < view.shape[1]; ++h) {
      for (std::int64_t r = 0; r < view.shape[2]; ++r) {
        body(b, h, r, b * view.strides[0] + h * view.strides[1] + r * view.strides[2]);
      }
    }
  }
}

bool holds_pattern(std::span<const std::byte> bytes, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (bytes[i] != pattern_at(i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void HostBuffer::Release::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kAlignment});
}

HostBuffer::HostBuffer(std::string name, BufferRole role, bool is_output, const Tensor& view,
                       std::int64_t base_offset)
    : name_(std::move(name)),
      role_(role),
      is_output_(is_output),
      view_{nullptr, view.dtype, view.shape, view.strides},
      data_offset_(kGuardBytes + static_cast<std::size_t>(base_offset * element_size(view.dtype))),
      data_end_(data_offset_ + static_cast<std::size_t>(extent(view) * element_size(view.dtype))),
      size_(round_up(data_end_ + kGuardBytes, kAlignment)),
      memory_(static_cast<std::byte*>(::operator new (size_, std::align_val_t{kAlignment}))) {
  poison();
}

Tensor HostBuffer::tensor_at(void* base) const {
  Tensor tensor = view_;
  tensor.data = static_cast<std::byte*>(base) + data_offset_;
  return tensor;
}

void HostBuffer::poison() {
  for (std::size_t i = 0; i < size_; ++i) {
    memory_.get()[i] = pattern_at(i);
  }
}

std::string HostBuffer::check_guards() const {
  const auto width = static_cast<std::size_t>(element_size(view_.dtype));
  std::vector<bool> owned(size_);
  if (!is_empty(view_)) {
    for_each_row(view_, [&](auto, auto, auto, std::int64_t offset) {
      for (std::int64_t d = 0; d < view_.shape[3]; ++d) {
        const auto index = static_cast<std::size_t>(offset + d * view_.strides[3]);
        const std::size_t first = data_offset_ + index * width;
        std::fill_n(owned.begin() + static_cast<std::ptrdiff_t>(first), width, true);
      }
    });
  }
  std::size_t changed = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    if (!owned[i] && bytes()[i] != pattern_at(i) && changed++ == 0) {
      first = i;
    }
  }
  if (changed == 0) {
    return {};
  }
  const std::string place =
      first < data_offset_ ? fmt::format("{} bytes before its first element", data_offset_ - first)
      : first >= data_end_ ? fmt::format("{} bytes past its end", first - data_end_)
                           : fmt::format("at byte {}, between its rows", first - data_offset_);
  return fmt::format("{}: {} bytes outside the tensor changed, the first {}", name_, changed,
                     place);
}

std::string HostBuffer::check_written() const {
  const auto width = static_cast<std::size_t>(element_size(view_.dtype));
  std::int64_t unwritten = 0;
  std::array<std::int64_t, 4> first{};
  for_each_row(view_, [&](auto b, auto h, auto r, std::int64_t offset) {
    for (std::int64_t d = 0; d < view_.shape[3]; ++d) {
      const auto index = static_cast<std::size_t>(offset + d * view_.strides[3]);
      const std::size_t begin = data_offset_ + index * width;
      if (holds_pattern(bytes(), begin, begin + width) && unwritten++ == 0) {
        first = {b, h, r, d};
      }
    }
  });
  if (unwritten == 0) {
    return {};
  }
  return fmt::format("{}: {} elements were never written, the first [{}, {}, {}, {}]", name_,
                     unwritten, first[0], first[1], first[2], first[3]);
}

std::uint64_t HostBuffer::checksum() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size_; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory_.get() + i, sizeof(word));  // size_ is a multiple of 256
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum;
}

}  // namespace attnjit::instance
