#include "dump/elements.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

namespace attnjit::dump {
namespace {

constexpr std::uint64_t kMostChunk = std::uint64_t{32} << 20;  // bytes that are fetched at once
constexpr std::uint64_t kMostGaps = 4;  // bytes fetched for each that is wanted

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
}

// The axes that are stepped along, of larger strides first.
struct Axes {
  struct Axis {
    std::int64_t size, stride;  // elements
  };
  std::array<Axis, 4> list{};
  std::size_t count = 0;
  bool empty = false;  // no element

  explicit Axes(const Tensor& view) {
    for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
      if (view.shape[axis] <= 0) empty = true;
      if (view.shape[axis] <= 1 || view.strides[axis] == 0) continue;
      list[count++] = {view.shape[axis], view.strides[axis]};
    }
    std::stable_sort(
        list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count),
        [](const Axis& a, const Axis& b) { return magnitude(a.stride) > magnitude(b.stride); });
  }
};

// Copies `axes` from number `first` on from strided memory to `packed`, or back where that is
// const.
template <class Byte>
void copy_axes(const Axes& axes, std::size_t first, std::size_t width, std::byte* strided,
               Byte*& packed) {
  const auto copy = [&packed](std::byte* element, std::size_t bytes) {
    if constexpr (std::is_const_v<Byte>) {
      std::memcpy(element, packed, bytes);
    } else {
      std::memcpy(packed, element, bytes);
    }
    packed += bytes;
  };
  if (first == axes.count) return copy(strided, width);
  const auto [size, stride] = axes.list[first];
  if (first + 1 == axes.count && stride == 1) {
    return copy(strided, static_cast<std::size_t>(size) * width);
  }
  for (std::int64_t i = 0; i < size; ++i) {
    copy_axes(axes, first + 1, width, strided + i * stride * static_cast<std::int64_t>(width),
              packed);
  }
}

// Packs the elements along some axes, whose first one is at an offset from the tensor's.
class Packer {
 public:
  Packer(const Tensor& view, const Fetch& fetch, const Sink& sink)
      : base_(reinterpret_cast<std::uintptr_t>(view.data)),
        width_(static_cast<std::size_t>(element_size(view.dtype))),
        fetch_(fetch),
        sink_(sink) {}

  void pack(const Axes& axes, std::size_t first, std::int64_t offset) {
    const Span span = span_of(axes, first);
    if (first == axes.count || fits(span)) return pack_chunk(axes, first, offset, span);
    if (first + 1 == axes.count) return pack_line(axes, first, offset);
    for (std::int64_t i = 0; i < axes.list[first].size; ++i) {
      pack(axes, first + 1, offset + i * axes.list[first].stride);
    }
  }

 private:
  struct Span {
    std::uint64_t elements = 1, wanted = 1;  // from the lowest to the highest, and those packed
    std::int64_t before = 0;                 // the first one from the lowest
  };
  static Span span_of(const Axes& axes, std::size_t first) {
    Span span;
    for (std::size_t i = first; i < axes.count; ++i) {
      const auto [size, stride] = axes.list[i];
      span.elements += static_cast<std::uint64_t>(size - 1) * magnitude(stride);
      span.wanted *= static_cast<std::uint64_t>(size);
      if (stride < 0) span.before -= (size - 1) * stride;
    }
    return span;
  }
  bool fits(const Span& span) const {
    return span.elements <= kMostGaps * span.wanted && span.elements * width_ <= kMostChunk;
  }

  // A line that is too long or too wide: in parts, or by elements.
  void pack_line(const Axes& axes, std::size_t first, std::int64_t offset) {
    const auto [size, stride] = axes.list[first];
    const std::uint64_t steps =
        magnitude(stride) > kMostGaps ? 1 : kMostChunk / (magnitude(stride) * width_);
    for (std::int64_t i = 0; i < size;) {
      Axes part = axes;
      const auto count = std::min(size - i, static_cast<std::int64_t>(steps));
      part.list[first].size = count;
      pack_chunk(part, first, offset + i * stride, span_of(part, first));
      i += count;
    }
  }

  void pack_chunk(const Axes& axes, std::size_t first, std::int64_t offset, const Span& span) {
    strided_.resize(span.elements * width_);
    const std::int64_t lowest = (offset - span.before) * static_cast<std::int64_t>(width_);
    fetch_(strided_.data(),
           reinterpret_cast<const void*>(base_ + static_cast<std::uintptr_t>(lowest)),
           strided_.size());
    packed_.resize(span.wanted * width_);
    std::byte* end = packed_.data();
    copy_axes(axes, first, width_,
              strided_.data() + span.before * static_cast<std::int64_t>(width_), end);
    sink_(packed_);
  }

  const std::uintptr_t base_;
  const std::size_t width_;
  const Fetch& fetch_;
  const Sink& sink_;
  std::vector<std::byte> strided_, packed_;
};

// a + b * c, or nullopt.
std::optional<std::uint64_t> multiply_add(std::optional<std::uint64_t> a, std::uint64_t b,
                                          std::uint64_t c) {
  std::uint64_t product = 0, sum = 0;
  if (!a || __builtin_mul_overflow(b, c, &product) || __builtin_add_overflow(*a, product, &sum)) {
    return std::nullopt;
  }
  return sum;
}

bool has_sizes(const Tensor& view) {
  return element_size(view.dtype) > 0 &&
         std::ranges::all_of(view.shape, [](std::int64_t size) { return size >= 0; });
}

}  // namespace

void fetch_from_host(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

std::optional<std::uint64_t> packed_bytes(const Tensor& view) {
  if (!has_sizes(view)) return std::nullopt;
  const Axes axes(view);
  if (axes.empty) return 0;
  std::optional<std::uint64_t> bytes = static_cast<std::uint64_t>(element_size(view.dtype));
  for (std::size_t i = 0; bytes && i < axes.count; ++i) {
    bytes = multiply_add(0, *bytes, static_cast<std::uint64_t>(axes.list[i].size));
  }
  return bytes;
}

std::optional<Extent> extent_of(const Tensor& view) {
  if (!has_sizes(view)) return std::nullopt;
  const Axes axes(view);
  if (axes.empty) return Extent{};
  const auto width = static_cast<std::uint64_t>(element_size(view.dtype));
  std::optional<std::uint64_t> above = width, before = 0;
  for (std::size_t i = 0; i < axes.count; ++i) {
    const auto [size, stride] = axes.list[i];
    const auto step = multiply_add(0, magnitude(stride), width);
    auto& side = stride < 0 ? before : above;
    side = step ? multiply_add(side, static_cast<std::uint64_t>(size - 1), *step) : std::nullopt;
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // offsets are signed
  if (!above || !before || *above > kMost || *before > kMost) return std::nullopt;
  return Extent{*above + *before, *before};
}

void pack(const Tensor& view, const Fetch& fetch, const Sink& sink) {
  const Axes axes(view);
  if (!axes.empty) Packer(view, fetch, sink).pack(axes, 0, 0);
}

std::vector<std::byte> packed(const Tensor& view, const Fetch& fetch) {
  std::vector<std::byte> bytes;
  pack(view, fetch, [&](std::span<const std::byte> chunk) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  });
  return bytes;
}

void unpack(const Tensor& view, std::span<const std::byte> packed) {
  const Axes axes(view);
  if (axes.empty) return;
  const std::byte* next = packed.data();
  copy_axes(axes, 0, static_cast<std::size_t>(element_size(view.dtype)),
            static_cast<std::byte*>(view.data), next);
}

}  // namespace attnjit::dump
