#include "runtime/synthetic_tensors.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "attnjit/error.hpp"
#include "reference/fill.hpp"
#include "reference/half.hpp"

namespace attnjit::runtime {
namespace {

constexpr std::int64_t kTileRows = 256, kTileColumns = 4096;  // of random values, then repeated
constexpr double kMaskDensity = 0.5;

struct Axis {
  std::int64_t size;
  std::int64_t stride;  // elements
};

// The elements that a tensor touches, from the lowest address to the highest.
struct Span {
  std::int64_t before = 0;  // the first logical element
  std::int64_t count = 0;
};

template <std::size_t kAxes>
Span span_of(const std::array<Axis, kAxes>& axes) {
  double extent = 1;  // in double: strides of a tensor that cannot exist overflow integers
  for (const auto& [size, stride] : axes) {
    if (size == 0) return {};
    extent += static_cast<double>(size - 1) * std::abs(static_cast<double>(stride));
  }
  if (extent > 0x1p46) {
    throw Error(ErrorKind::kCuda, "cannot allocate a tensor that spans more than 2^46 elements");
  }
  Span span{0, 1};
  for (const auto& [size, stride] : axes) {
    const std::int64_t reach = (size - 1) * stride;
    span.count += std::abs(reach);
    if (reach < 0) span.before -= reach;
  }
  return span;
}

std::array<Axis, 4> row_axes(const problem::Problem& p, const problem::RowStrides& strides,
                             std::int64_t heads, std::int64_t rows, std::int64_t width) {
  return {Axis{p.batch, strides.batch}, {heads, strides.head}, {rows, strides.row}, {width, 1}};
}

std::array<Axis, 4> operand_axes(const problem::Problem& p, const problem::Operand& o) {
  return {Axis{p.batch, o.batch_stride},
          {o.num_heads, o.head_stride},
          {p.seqlen_q, o.query_stride},
          {p.seqlen_kv, o.key_stride}};
}

void fill_tile(DType dtype, void* tile, reference::Random random, unsigned jobs) {
  const Tensor tensor = Tensor::contiguous(tile, dtype, {1, 1, kTileRows, kTileColumns});
  if (dtype == DType::kBool) {
    reference::fill_mask(tensor, reference::MaskKind::kRandom, kMaskDensity, random, jobs);
  } else {
    reference::fill_normal(tensor, random, 0, 1, jobs);
  }
}

}  // namespace

SyntheticTensors::SyntheticTensors(const cuda::Driver& driver, const problem::Problem& p,
                                   unsigned jobs, CUstream stream) {
  const auto allocate = [&](std::int64_t bytes) -> cuda::DeviceBuffer& {
    return buffers_.emplace_back(driver, static_cast<std::size_t>(bytes));
  };
  // The address of the first logical element of a new tensor.
  const auto place = [&](DType dtype, const std::array<Axis, 4>& axes) -> void* {
    const Span span = span_of(axes);
    const auto width = static_cast<std::int64_t>(reference::element_size(dtype));
    return static_cast<std::byte*>(allocate(span.count * width).data()) + span.before * width;
  };
  std::uint64_t tag = 0;
  std::vector<std::byte> tile;
  const auto make = [&](DType dtype, const std::array<Axis, 4>& axes) -> void* {
    void* const first = place(dtype, axes);
    const cuda::DeviceBuffer& buffer = buffers_.back();
    tile.resize(kTileRows * kTileColumns * reference::element_size(dtype));
    fill_tile(dtype, tile.data(), reference::Random(1).stream(tag++), jobs);
    const std::size_t period = std::min(tile.size(), buffer.bytes());
    if (period == 0) return first;
    cuda::copy_to_device(driver, buffer.data(), tile.data(), period, stream);
    cuda::repeat_on_device(driver, buffer.data(), period, buffer.bytes(), stream);
    return first;
  };
  const auto full_lengths = [&](std::int32_t length) {
    const std::vector<std::int32_t> lengths(static_cast<std::size_t>(p.batch), length);
    const std::size_t bytes = lengths.size() * sizeof(std::int32_t);
    void* const device = allocate(static_cast<std::int64_t>(bytes)).data();
    cuda::copy_to_device(driver, device, lengths.data(), bytes, stream);
    return static_cast<const std::int32_t*>(device);
  };

  args_.q.data = make(p.dtype, row_axes(p, p.q, p.num_heads_q, p.seqlen_q, p.head_dim));
  args_.k.data = make(p.dtype, row_axes(p, p.k, p.num_heads_kv, p.seqlen_kv, p.head_dim));
  args_.v.data = make(p.dtype, row_axes(p, p.v, p.num_heads_kv, p.seqlen_kv, p.head_dim_v));
  args_.out.data = place(p.dtype, row_axes(p, p.out, p.num_heads_q, p.seqlen_q, p.head_dim_v));
  out_ = &buffers_.back();
  if (p.mask.extent != problem::Extent::kAbsent) {
    args_.mask.emplace().data = make(DType::kBool, operand_axes(p, p.mask));
  }
  if (p.bias.extent != problem::Extent::kAbsent) {
    args_.bias.emplace().data = make(p.bias.dtype, operand_axes(p, p.bias));
  }
  if (p.has_lse) {
    const std::int64_t rows = std::int64_t{p.batch} * p.num_heads_q * p.seqlen_q;
    args_.lse = static_cast<float*>(allocate(rows * std::int64_t{sizeof(float)}).data());
  }
  if (p.has_seqlens_q) args_.seqlens_q = full_lengths(p.seqlen_q);
  if (p.has_seqlens_kv) args_.seqlens_kv = full_lengths(p.seqlen_kv);
}

}  // namespace attnjit::runtime
