#include "instance/buffer_specs.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "instance/blocks_spec.hpp"
#include "instance/key_indices_spec.hpp"

namespace attnjit::instance {
namespace {

using Shape = std::array<std::int64_t, 4>;

// `shape`, whose elements an std::int64_t can count, padding and all.
const Shape& counted(const Shape& shape, std::string_view what) {
  double elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<double>(size);
  if (elements > 0x1p60) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{}: {:.2g} elements; expected at most 2^60; choose smaller sizes",
                            what, elements));
  }
  return shape;
}

Tensor sequence_view(const ProblemSpec& spec, const Shape& shape, bool differs) {
  const bool swapped = (spec.memory.layout == Layout::kBshd) != differs;
  const std::int64_t row = shape[3] + spec.memory.row_padding + (differs ? 8 : 0);
  if (swapped) {
    return {nullptr, spec.dtype, shape, {shape[2] * shape[1] * row, row, shape[1] * row, 1}};
  }
  return {nullptr, spec.dtype, shape, {shape[1] * shape[2] * row, shape[2] * row, row, 1}};
}

Tensor score_view(const ProblemSpec& spec, std::string_view pattern, std::string_view what,
                  DType dtype) {
  const Shape shape = counted(pattern_shape(spec, pattern, what), what);
  const std::int64_t row = shape[3] + spec.memory.row_padding;
  return {nullptr, dtype, shape, {shape[1] * shape[2] * row, shape[2] * row, row, 1}};
}

// The same memory with the axes that are broadcast at full size and stride 0, if asked for.
Tensor expanded(const ProblemSpec& spec, Tensor view) {
  const Shape full = pattern_shape(spec, "bhqk", "expand_broadcast");
  for (std::size_t axis = 0; spec.memory.expand_broadcast && axis < full.size(); ++axis) {
    if (view.shape[axis] == 1) {
      view.shape[axis] = full[axis];
      view.strides[axis] = 0;
    }
  }
  return view;
}

Tensor head_view(const ProblemSpec& spec, DType dtype, std::int64_t batch = 1) {
  const std::int64_t stride = 1 + spec.memory.row_padding;
  return {nullptr, dtype, {batch, spec.heads_q, 1, 1}, {spec.heads_q * stride, stride, 1, 1}};
}

struct Shapes {
  explicit Shapes(const ProblemSpec& spec)
      : q(counted({spec.tensor_batch(), spec.heads_q, spec.seqlen_q, spec.head_dim}, "q")),
        k(counted({key_planes(spec), spec.heads_kv, key_rows(spec), spec.head_dim}, "k")),
        v(counted({key_planes(spec), spec.heads_kv, key_rows(spec), spec.value_dim()}, "v")),
        out(counted({spec.tensor_batch(), spec.heads_q, spec.seqlen_q, spec.value_dim()}, "out")) {}
  Shape q, k, v, out;

 private:
  static std::int64_t key_planes(const ProblemSpec& spec) {
    return spec.paged() ? spec.num_pages() : spec.tensor_batch();
  }
  static std::int64_t key_rows(const ProblemSpec& spec) {
    return spec.paged() ? spec.page_size : spec.seqlen_kv;
  }
};

Tensor row_view(const ProblemSpec& spec) {
  return Tensor::contiguous(nullptr, DType::kFloat32,
                            {spec.tensor_batch(), spec.heads_q, 1, spec.seqlen_q});
}

Tensor dout_view(const ProblemSpec& spec, const Shape& shape) {
  if (spec.memory.expand_dout) {
    return {nullptr, spec.dtype, shape, {0, 0, 0, 1}};
  }
  return sequence_view(spec, shape, spec.memory.v_differs);
}

void add_backward(const ProblemSpec& spec, std::vector<BufferSpec>& specs) {
  // Each gradient lies otherwise than its tensor if v_differs.
  const bool differs = spec.memory.v_differs;
  const Shapes shapes(spec);
  specs.push_back({"dout", BufferRole::kDout, false, dout_view(spec, shapes.out)});
  if (spec.want_dlse) {
    specs.push_back({"dlse", BufferRole::kDlse, false, row_view(spec)});
  }
  specs.push_back({"dq", BufferRole::kDq, true, sequence_view(spec, shapes.q, differs)});
  specs.push_back({"dk", BufferRole::kDk, true, sequence_view(spec, shapes.k, differs)});
  specs.push_back({"dv", BufferRole::kDv, true, sequence_view(spec, shapes.v, false)});
  if (spec.want_dsink) {
    specs.push_back({"dsink", BufferRole::kDsink, true, head_view(spec, DType::kFloat32)});
  }
  for (const OperandSpec& operand : spec.operands) {
    if (!wants_gradient(spec, operand)) continue;
    specs.push_back(
        {operand.name, BufferRole::kOperandGradient, true, operand_view(spec, operand)});
  }
  if (spec.want_dbias) {
    const DType dtype = spec.dbias_dtype.value_or(spec.score_dtype());
    specs.push_back(
        {"dbias", BufferRole::kDbias, true, score_view(spec, spec.bias, "dbias", dtype)});
  }
}

}  // namespace

std::vector<BufferSpec> buffer_specs(const ProblemSpec& spec) {
  const Shapes shapes(spec);
  const Tensor lengths = Tensor::contiguous(nullptr, DType::kFloat32, {spec.batch, 1, 1, 1});
  const bool is_forward = !spec.backward;
  std::vector<BufferSpec> specs = {
      {"q", BufferRole::kQ, false, sequence_view(spec, shapes.q, false)},
      {"k", BufferRole::kK, false, sequence_view(spec, shapes.k, false)},
      {"v", BufferRole::kV, false, sequence_view(spec, shapes.v, spec.memory.v_differs)},
      {"out", BufferRole::kOut, is_forward, sequence_view(spec, shapes.out, false)}};
  if (!spec.bias.empty()) {
    const Tensor bias = score_view(spec, spec.bias, "bias", spec.score_dtype());
    specs.push_back({"bias", BufferRole::kBias, false, expanded(spec, bias)});
  }
  if (!spec.mask.empty()) {
    const Tensor mask = score_view(spec, spec.mask, "mask", DType::kBool);
    specs.push_back({"mask", BufferRole::kMask, false, expanded(spec, mask)});
  }
  if (spec.use_sink) {
    specs.push_back(
        {"sink", BufferRole::kSink, false, head_view(spec, spec.sink_dtype.value_or(spec.dtype))});
  }
  if (!spec.alibi.empty()) {
    const Tensor slopes = head_view(spec, DType::kFloat32, spec.alibi == "bh" ? spec.batch : 1);
    specs.push_back({"alibi_slopes", BufferRole::kAlibiSlopes, false, slopes});
  }
  if (spec.want_lse) {
    specs.push_back({"lse", BufferRole::kLse, is_forward, row_view(spec)});
  }
  if (spec.want_row_max) {
    specs.push_back({"row_max", BufferRole::kRowMax, is_forward, row_view(spec)});
  }
  if (spec.want_max_logits) {
    const Tensor heads = Tensor::contiguous(nullptr, DType::kFloat32, {1, spec.heads_q, 1, 1});
    specs.push_back({"max_logits", BufferRole::kMaxLogits, is_forward, heads});
  }
  if (spec.packed) {
    const Tensor begins = Tensor::contiguous(nullptr, DType::kFloat32, {spec.batch + 1, 1, 1, 1});
    specs.push_back({"cu_seqlens_q", BufferRole::kCuSeqlensQ, false, begins});
    if (!spec.paged()) specs.push_back({"cu_seqlens_kv", BufferRole::kCuSeqlensKv, false, begins});
  }
  if (spec.use_seqlens_q) {
    specs.push_back({"seqlens_q", BufferRole::kSeqlensQ, false, lengths});
  }
  if (spec.has_seqlens_kv()) {
    specs.push_back({"seqlens_kv", BufferRole::kSeqlensKv, false, lengths});
  }
  if (spec.paged()) {
    // Rows of the table are longer than they need to be.
    const std::int64_t row = spec.max_pages() + spec.memory.row_padding;
    specs.push_back(
        {"block_table",
         BufferRole::kBlockTable,
         false,
         {nullptr, DType::kFloat32, {spec.batch, 1, 1, spec.max_pages()}, {row, 1, 1, 1}}});
  }
  if (!spec.tail_mask.empty()) {
    const std::int64_t batch = spec.tail_mask == "b" ? spec.batch : 1, queries = spec.seqlen_q;
    const std::int64_t row = queries + spec.memory.row_padding;
    specs.push_back(
        {"tail_mask",
         BufferRole::kTailMask,
         false,
         {nullptr, DType::kBool, {batch, 1, queries, queries}, {queries * row, 1, row, 1}}});
  }
  if (!spec.blocks.empty()) {
    const BlockLists lists = block_lists_view(spec);
    counted(lists.indices.shape, "blocks");
    specs.push_back({"blocks.indices", BufferRole::kBlockIndices, false, lists.indices});
    specs.push_back({"blocks.counts", BufferRole::kBlockCounts, false, lists.counts});
    if (lists.full_indices) {
      specs.push_back(
          {"blocks.full_indices", BufferRole::kFullIndices, false, *lists.full_indices});
      specs.push_back({"blocks.full_counts", BufferRole::kFullCounts, false, *lists.full_counts});
    }
  }
  if (!spec.key_indices.empty()) {
    specs.push_back({"key_indices", BufferRole::kKeyIndices, false, key_indices_view(spec)});
  }
  for (const OperandSpec& operand : spec.operands) {
    const Tensor view = operand_view(spec, operand);
    counted(view.shape, operand.name);
    specs.push_back({operand.name, BufferRole::kOperand, false, view});
  }
  if (spec.backward) {
    add_backward(spec, specs);
  }
  return specs;
}

}  // namespace attnjit::instance
