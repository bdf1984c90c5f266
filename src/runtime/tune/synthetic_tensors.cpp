#include "runtime/tune/synthetic_tensors.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "attnjit/error.hpp"
#include "launch/bit_mask.hpp"
#include "runtime/tune/synthetic_pages.hpp"
#include "tensor/fill.hpp"
#include "tensor/half.hpp"

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

std::array<Axis, 4> plane_axes(std::int64_t planes, const problem::RowStrides& strides,
                               std::int64_t heads, std::int64_t rows, std::int64_t width) {
  return {Axis{planes, strides.batch}, {heads, strides.head}, {rows, strides.row}, {width, 1}};
}

std::array<Axis, 4> row_axes(const problem::Problem& p, const problem::RowStrides& strides,
                             std::int64_t heads, std::int64_t rows, std::int64_t width) {
  return plane_axes(p.tensor_batch(), strides, heads, rows, width);
}

std::array<Axis, 4> operand_axes(const problem::Operand& o) {
  return {Axis{o.num_batches, o.batch_stride},
          {o.num_heads, o.head_stride},
          {o.queries, o.query_stride},
          {o.keys, o.key_stride}};
}

std::array<Axis, 4> gradient_axes(const problem::BiasGradient& g) {
  return {Axis{g.batches, g.batch_stride},
          {g.heads, g.head_stride},
          {g.queries, g.query_stride},
          {g.keys, g.key_stride}};
}

void fill_tile(DType dtype, void* tile, tensor::Random random, unsigned jobs) {
  const Tensor tensor = Tensor::contiguous(tile, dtype, {1, 1, kTileRows, kTileColumns});
  if (dtype == DType::kInt32) {
    constexpr std::size_t kDocument = 1024;  // keys of one number
    auto* const numbers = static_cast<std::int32_t*>(tile);
    for (std::size_t i = 0; i < kTileRows * kTileColumns; ++i) {
      numbers[i] = static_cast<std::int32_t>(i / kDocument);
    }
  } else if (dtype == DType::kBool) {
    tensor::fill_mask(tensor, tensor::MaskKind::kRandom, kMaskDensity, random, jobs);
  } else {
    tensor::fill_normal(tensor, random, 0, 1, jobs);
  }
}

/// Makes tensors in device memory that `buffers` keeps.
class Maker {
 public:
  Maker(const cuda::Driver& driver, std::list<cuda::DeviceBuffer>& buffers, unsigned jobs,
        CUstream stream)
      : driver_(driver), buffers_(buffers), jobs_(jobs), stream_(stream) {}

  /// The address of the first logical element of a new tensor, which is left unwritten.
  void* place(DType dtype, const std::array<Axis, 4>& axes) {
    const Span span = span_of(axes);
    const std::int64_t width = element_size(dtype);
    return static_cast<std::byte*>(allocate(span.count * width).data()) + span.before * width;
  }

  /// The same of one that holds random values.
  void* fill(DType dtype, const std::array<Axis, 4>& axes) {
    void* const first = place(dtype, axes);
    const cuda::DeviceBuffer& buffer = buffers_.back();
    tile_.resize(kTileRows * kTileColumns * static_cast<std::size_t>(element_size(dtype)));
    fill_tile(dtype, tile_.data(), tensor::Random(1).stream(tag_++), jobs_);
    const std::size_t period = std::min(tile_.size(), buffer.bytes());
    if (period == 0) return first;
    cuda::copy_to_device(driver_, buffer.data(), tile_.data(), period, stream_);
    cuda::repeat_on_device(driver_, buffer.data(), period, buffer.bytes(), stream_);
    return first;
  }

  /// The same of one that kernels write, which `outputs` gets.
  void* output(DType dtype, const std::array<Axis, 4>& axes, std::vector<OutputMemory>& outputs) {
    void* const first = place(dtype, axes);
    outputs.push_back({buffers_.back().data(), buffers_.back().bytes(), dtype});
    return first;
  }

  /// The same of slopes that fall from head to head.
  void* slopes(const std::array<Axis, 4>& axes) {
    void* const first = place(DType::kFloat32, axes);
    const cuda::DeviceBuffer& buffer = buffers_.back();
    tile_.resize(buffer.bytes());
    Tensor tensor{tile_.data() + span_of(axes).before * sizeof(float), DType::kFloat32, {}, {}};
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      tensor.shape[axis] = axes[axis].size;
      tensor.strides[axis] = axes[axis].stride;
    }
    tensor::fill_slopes(tensor);
    cuda::copy_to_device(driver_, buffer.data(), tile_.data(), tile_.size(), stream_);
    return first;
  }

  /// A prepared mask that keeps everything and yet calls each tile masked: by rows and by keys
  /// alike, so that all kernels compute the same.
  const void* prepared_mask(const problem::Operand& mask) {
    const launch::BitMaskLayout layout(launch::MaskTiles(mask),
                                       {.by_keys = mask.extent == problem::Extent::kPerPair});
    auto* const memory = static_cast<std::byte*>(allocate(layout.bytes).data());
    fill_bytes(memory, layout.classes, std::byte{0xff});
    fill_bytes(memory + layout.classes, layout.bytes - layout.classes,
               static_cast<std::byte>(kernel::TileUse::kMasked));
    return memory;
  }

  const std::int32_t* lengths(std::int32_t count, std::int32_t length) {
    return numbers(std::vector<std::int32_t>(static_cast<std::size_t>(count), length));
  }
  /// The begins of `count` packed sequences that share `rows` evenly, and their end.
  const std::int32_t* begins(std::int32_t count, std::int32_t rows) {
    std::vector<std::int32_t> values;
    for (std::int64_t b = 0; b <= count; ++b) {
      values.push_back(static_cast<std::int32_t>(rows * b / count));
    }
    return numbers(values);
  }
  /// Lists that name an eighth of the blocks of keys, or as many as they have room for, evenly
  /// spread, from another block on in each line.
  void set_lists(const problem::Blocks& blocks, const problem::BlockList& list, Tensor& indices,
                 Tensor& counts) {
    constexpr std::int32_t kApart = 8;
    const std::array<Axis, 4> lines = {Axis{blocks.batches, list.index_strides[0]},
                                       {blocks.heads, list.index_strides[1]},
                                       {blocks.row_blocks, list.index_strides[2]},
                                       {list.most, list.index_strides[3]}};
    const std::array<Axis, 4> lengths = {Axis{blocks.batches, list.count_strides[0]},
                                         {blocks.heads, list.count_strides[1]},
                                         {blocks.row_blocks, list.count_strides[2]},
                                         {1, 0}};
    const std::int32_t few = (blocks.key_blocks + kApart - 1) / kApart;
    counts.data =
        numbers(lengths, [&](std::int64_t, std::int64_t) { return std::min(few, list.most); });
    indices.data = numbers(lines, [&](std::int64_t line, std::int64_t entry) {
      return static_cast<std::int32_t>((entry * kApart + line) % std::max(blocks.key_blocks, 1));
    });
  }

  /// Keys evenly spread, in their order.
  void* key_indices(const problem::Problem& p) {
    const problem::KeySelection& s = p.selection;
    const std::array<Axis, 4> axes = {Axis{s.batch_stride == 0 ? 1 : p.batch, s.batch_stride},
                                      {s.head_stride == 0 ? 1 : p.num_heads_kv, s.head_stride},
                                      {1, 0},
                                      {s.width, s.key_stride}};
    const auto key = [&](std::int64_t, std::int64_t entry) {
      return entry * p.num_keys() / s.width;
    };
    return s.dtype == DType::kInt64 ? numbers<std::int64_t>(axes, key)
                                    : numbers<std::int32_t>(axes, key);
  }

  const std::int32_t* pages(const problem::Problem& p) { return numbers(synthetic_pages(p)); }

 private:
  void fill_bytes(std::byte* device, std::int64_t bytes, std::byte value) {
    const auto count = static_cast<std::size_t>(bytes);
    const std::vector<std::byte> pattern(std::min<std::size_t>(count, 4096), value);
    cuda::copy_to_device(driver_, device, pattern.data(), pattern.size(), stream_);
    cuda::repeat_on_device(driver_, device, pattern.size(), count, stream_);
  }
  /// The address of the first logical element of new ints, value(line, entry) each, where lines are
  /// those of the first three axes.
  template <class Int = std::int32_t, class Value>
  void* numbers(const std::array<Axis, 4>& axes, Value value) {
    void* const first = place(sizeof(Int) == 8 ? DType::kInt64 : DType::kInt32, axes);
    const Span span = span_of(axes);
    std::vector<Int> values(static_cast<std::size_t>(span.count));
    const std::int64_t lines = axes[0].size * axes[1].size * axes[2].size;
    for (std::int64_t line = 0; line < lines && span.count > 0; ++line) {
      const std::int64_t plane = line / axes[2].size;
      const std::int64_t begin = span.before + plane / axes[1].size * axes[0].stride +
                                 plane % axes[1].size * axes[1].stride +
                                 line % axes[2].size * axes[2].stride;
      for (std::int64_t entry = 0; entry < axes[3].size; ++entry) {
        values[static_cast<std::size_t>(begin + entry * axes[3].stride)] =
            static_cast<Int>(value(line, entry));
      }
    }
    const cuda::DeviceBuffer& buffer = buffers_.back();
    cuda::copy_to_device(driver_, buffer.data(), values.data(), values.size() * sizeof(values[0]),
                         stream_);
    return first;
  }
  const std::int32_t* numbers(const std::vector<std::int32_t>& values) {
    const std::size_t bytes = values.size() * sizeof(std::int32_t);
    void* const device = allocate(static_cast<std::int64_t>(bytes)).data();
    cuda::copy_to_device(driver_, device, values.data(), bytes, stream_);
    return static_cast<const std::int32_t*>(device);
  }
  cuda::DeviceBuffer& allocate(std::int64_t bytes) {
    return buffers_.emplace_back(driver_, static_cast<std::size_t>(bytes));
  }

  const cuda::Driver& driver_;
  std::list<cuda::DeviceBuffer>& buffers_;
  const unsigned jobs_;
  const CUstream stream_;
  std::uint64_t tag_ = 0;
  std::vector<std::byte> tile_;
};

std::array<Axis, 4> q_axes(const problem::Problem& p, const problem::RowStrides& strides) {
  return row_axes(p, strides, p.num_heads_q, p.seqlen_q, p.head_dim);
}
// Rows of k and v, and of dk and dv.
std::int32_t rows_of_keys(const problem::Problem& p) {
  return p.selection.exists ? p.num_keys() : p.key_rows();
}
std::array<Axis, 4> k_axes(const problem::Problem& p, const problem::RowStrides& strides) {
  return plane_axes(p.key_planes(), strides, p.num_heads_kv, rows_of_keys(p), p.head_dim);
}
std::array<Axis, 4> v_axes(const problem::Problem& p, const problem::RowStrides& strides) {
  return plane_axes(p.key_planes(), strides, p.num_heads_kv, rows_of_keys(p), p.head_dim_v);
}
std::array<Axis, 4> out_axes(const problem::Problem& p, const problem::RowStrides& strides) {
  return row_axes(p, strides, p.num_heads_q, p.seqlen_q, p.head_dim_v);
}
std::array<Axis, 4> head_axes(const problem::Problem& p, std::int64_t stride,
                              std::int64_t batch_stride = 0) {
  return {
      Axis{batch_stride == 0 ? 1 : p.batch, batch_stride}, {p.num_heads_q, stride}, {1, 0}, {1, 0}};
}
std::array<Axis, 4> lse_axes(const problem::Problem& p) {
  const std::int64_t rows = p.seqlen_q;
  return {Axis{p.tensor_batch(), p.num_heads_q * rows}, {p.num_heads_q, rows}, {rows, 1}, {1, 0}};
}

std::array<Axis, 4> tail_mask_axes(const problem::Problem& p) {
  const problem::TailMask& mask = p.tail_mask;
  return {Axis{mask.batch_stride == 0 ? 1 : p.batch, mask.batch_stride},
          {1, 0},
          {p.seqlen_q, mask.query_stride},
          {p.seqlen_q, mask.key_stride}};
}

std::array<Axis, 4> axes_of(const problem::ExpressionOperand& o) {
  std::array<Axis, 4> axes{Axis{1, 0}, {1, 0}, {1, 0}, {1, 0}};
  for (int axis = 0; axis < o.rank; ++axis) axes[axis] = {o.sizes[axis], o.strides[axis]};
  return axes;
}

// The operands of the expressions, in the order of the call.
std::vector<Operand> operands(Maker& maker, const problem::Problem& p) {
  std::vector<Operand> list;
  const auto add = [&](const expr::Ref& e, const problem::ExpressionOperands& all) {
    for (std::size_t n = 0; e && n < e->dtypes.size(); ++n) {
      const problem::ExpressionOperand& o = all[n];
      if (o.argument < 0) continue;  // no operand of the call
      const auto place = static_cast<std::size_t>(o.argument);
      list.resize(std::max(list.size(), place + 1));
      if (list[place].tensor.data != nullptr) continue;
      list[place].tensor.data = maker.fill(o.dtype, axes_of(o));
    }
  };
  add(p.score, p.score_operands);
  add(p.keep, p.keep_operands);
  return list;
}

// A forward call but for its output.
ForwardArgs forward_inputs(Maker& maker, const problem::Problem& problem) {
  const problem::Problem p = problem::as_called(problem);
  ForwardArgs args;
  args.q.data = maker.fill(p.dtype, q_axes(p, p.q));
  args.k.data = maker.fill(p.dtype, k_axes(p, p.k));
  args.v.data = maker.fill(p.dtype, v_axes(p, p.v));
  if (p.mask_prepared) {
    args.prepared_mask = {.data = maker.prepared_mask(p.mask), .shape = {}, .for_backward = true};
  } else if (p.mask.extent != problem::Extent::kAbsent) {
    args.mask.emplace().data = maker.fill(DType::kBool, operand_axes(p.mask));
  }
  if (p.bias.extent != problem::Extent::kAbsent) {
    args.bias.emplace().data = maker.fill(p.bias.dtype, operand_axes(p.bias));
  }
  if (p.sink.exists) {
    args.sink.emplace().data = maker.fill(p.sink.dtype, head_axes(p, p.sink.head_stride));
  }
  if (p.alibi.exists) {
    args.alibi_slopes.emplace().data =
        maker.slopes(head_axes(p, p.alibi.head_stride, p.alibi.batch_stride));
  }
  if (p.has_lse) args.lse = static_cast<float*>(maker.place(DType::kFloat32, lse_axes(p)));
  if (p.has_row_max) args.row_max = static_cast<float*>(maker.place(DType::kFloat32, lse_axes(p)));
  if (p.has_max_logits) {
    args.max_logits = static_cast<float*>(maker.place(DType::kFloat32, head_axes(p, 1)));
  }
  if (p.packed) {
    args.cu_seqlens_q = maker.begins(p.batch, p.seqlen_q);
    if (!p.paged()) args.cu_seqlens_kv = maker.begins(p.batch, p.seqlen_kv);
  }
  if (p.paged()) args.block_table = maker.pages(p);
  if (p.tail_mask.exists) {
    args.tail_mask.emplace().data = maker.fill(DType::kBool, tail_mask_axes(p));
  }
  if (p.blocks.exist()) {
    BlockLists& lists = args.blocks.emplace();
    maker.set_lists(p.blocks, p.blocks.listed, lists.indices, lists.counts);
    if (p.blocks.full.exists) {
      maker.set_lists(p.blocks, p.blocks.full, lists.full_indices.emplace(),
                      lists.full_counts.emplace());
    }
  }
  if (p.selection.exists) args.key_indices.emplace().data = maker.key_indices(p);
  if (p.has_seqlens_q) args.seqlens_q = maker.lengths(p.batch, p.seqlen_q);
  if (p.has_seqlens_kv) args.seqlens_kv = maker.lengths(p.batch, p.seqlen_kv);
  return args;
}

}  // namespace

template <>
BasicSyntheticTensors<launch::ForwardPass>::BasicSyntheticTensors(const cuda::Driver& driver,
                                                                  const problem::Problem& p,
                                                                  unsigned jobs, CUstream stream) {
  Maker maker(driver, buffers_, jobs, stream);
  args_ = forward_inputs(maker, p);
  args_.operands = operands_ = operands(maker, p);
  args_.out.data = maker.output(p.dtype, out_axes(p, p.out), outputs_);
}

template <>
BasicSyntheticTensors<launch::BackwardPass>::BasicSyntheticTensors(
    const cuda::Driver& driver, const problem::BackwardProblem& backward, unsigned jobs,
    CUstream stream) {
  const problem::Problem& p = backward.forward;
  Maker maker(driver, buffers_, jobs, stream);
  args_.forward = forward_inputs(maker, p);
  args_.forward.operands = operands_ = operands(maker, p);
  args_.forward.out.data = maker.place(p.dtype, out_axes(p, p.out));
  args_.dout.data = maker.fill(p.dtype, out_axes(p, backward.dout));
  if (backward.has_dlse) {
    args_.dlse = static_cast<const float*>(maker.fill(DType::kFloat32, lse_axes(p)));
  }
  args_.dq.data = maker.output(p.dtype, q_axes(p, backward.dq), outputs_);
  const bool selects = p.selection.exists;
  args_.dk.data =
      maker.output(p.dtype, k_axes(p, selects ? backward.caller_dk : backward.dk), outputs_);
  args_.dv.data =
      maker.output(p.dtype, v_axes(p, selects ? backward.caller_dv : backward.dv), outputs_);
  if (backward.dbias.extent != problem::Extent::kAbsent) {
    args_.dbias.emplace().data =
        maker.output(backward.dbias.dtype, gradient_axes(backward.dbias), outputs_);
  }
  if (backward.has_dsink) {
    args_.dsink.emplace().data =
        maker.output(DType::kFloat32, head_axes(p, backward.dsink_stride), outputs_);
  }
  operand_gradients_.resize(operands_.size());
  for (const problem::OperandGradient& gradient : backward.gradients_of_operands()) {
    const problem::ExpressionOperand& o = gradient.tensor;
    operand_gradients_[static_cast<std::size_t>(o.argument)].data =
        maker.output(o.dtype, axes_of(o), outputs_);
  }
  args_.operand_gradients = operand_gradients_;
  args_.deterministic = backward.deterministic;
}

}  // namespace attnjit::runtime
