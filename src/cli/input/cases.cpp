#include "cli/input/cases.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "attnjit/error.hpp"

namespace attnjit::cli {
namespace {

using Shape = std::array<std::int64_t, 4>;

// Any address that is not null and as aligned as memory from an allocator.
void* placeholder() { return reinterpret_cast<void*>(std::uintptr_t{1} << 12); }

double elements(const Shape& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

Tensor dense(DType dtype, const Shape& shape, std::string_view what) {
  if (elements(shape) > 0x1p60) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{}: {:.2g} elements; expected at most 2^60; choose smaller sizes",
                            what, elements(shape)));
  }
  return Tensor::contiguous(placeholder(), dtype, shape);
}

// q, k, v or out; shape is (batch, head, sequence, feature) whatever the layout.
Tensor rows(const instance::ProblemSpec& spec, const Shape& shape, std::string_view what) {
  Tensor tensor = dense(spec.dtype, shape, what);
  if (spec.memory.layout == instance::Layout::kBshd) {
    tensor.strides[1] = shape[3];
    tensor.strides[2] = shape[1] * shape[3];
  }
  return tensor;
}

// The spec agrees with itself once it is validated, so what else is refused are limits of the
// library.
template <class Args>
auto make_supported(const instance::ProblemSpec& spec, Args (*args)(const instance::ProblemSpec&)) {
  instance::validate(spec);
  try {
    return problem::make_problem(args(spec));
  } catch (const Error& error) {
    throw Error(ErrorKind::kUnsupported, error.what());
  }
}

double bytes(const Tensor& tensor) {
  const int width = tensor.dtype == DType::kBool ? 1 : tensor.dtype == DType::kFloat32 ? 4 : 2;
  return elements(tensor.shape) * width;
}

}  // namespace

ForwardArgs shape_args(const instance::ProblemSpec& spec) {
  const std::int64_t b = spec.tensor_batch(), hq = spec.heads_q, hkv = spec.heads_kv;
  ForwardArgs args;
  args.q = rows(spec, {b, hq, spec.seqlen_q, spec.head_dim}, "q");
  const std::int64_t planes = spec.paged() ? spec.num_pages() : b;
  const std::int64_t keys = spec.paged() ? spec.page_size : spec.seqlen_kv;
  args.k = rows(spec, {planes, hkv, keys, spec.head_dim}, "k");
  args.v = rows(spec, {planes, hkv, keys, spec.value_dim()}, "v");
  args.out = rows(spec, {b, hq, spec.seqlen_q, spec.value_dim()}, "out");
  if (!spec.mask.empty()) {
    args.mask = dense(DType::kBool, pattern_shape(spec, spec.mask, "mask"), "mask");
  }
  if (spec.prepare_mask) {
    args.prepared_mask = {
        .data = args.mask->data, .shape = args.mask->shape, .for_backward = spec.backward};
    args.mask.reset();
  }
  if (!spec.bias.empty()) {
    args.bias =
        dense(spec.bias_dtype.value_or(spec.dtype), pattern_shape(spec, spec.bias, "bias"), "bias");
  }
  if (spec.use_sink) {
    args.sink = dense(spec.sink_dtype.value_or(spec.dtype), {1, hq, 1, 1}, "sink");
  }
  if (!spec.alibi.empty()) {
    args.alibi_slopes =
        dense(DType::kFloat32, {spec.alibi == "bh" ? spec.batch : 1, hq, 1, 1}, "alibi_slopes");
  }
  if (spec.want_lse) args.lse = static_cast<float*>(placeholder());
  if (spec.want_row_max) args.row_max = static_cast<float*>(placeholder());
  if (spec.want_max_logits) args.max_logits = static_cast<float*>(placeholder());
  const auto* const lengths = static_cast<const std::int32_t*>(placeholder());
  if (spec.packed) {
    args.cu_seqlens_q = lengths;
    args.cu_seqlens_kv = spec.paged() ? nullptr : lengths;
    args.num_sequences = spec.batch;
  }
  if (spec.use_seqlens_q) args.seqlens_q = lengths;
  if (spec.has_seqlens_kv()) args.seqlens_kv = lengths;
  if (spec.paged()) {
    args.block_table = lengths;
    args.block_table_stride = args.max_pages = spec.max_pages();
  }
  if (!spec.tail_mask.empty()) {
    const std::int64_t planes_of_mask = spec.tail_mask == "b" ? b : 1;
    args.tail_mask =
        dense(DType::kBool, {planes_of_mask, 1, spec.seqlen_q, spec.seqlen_q}, "tail_mask");
  }
  args.mask_order = instance::pattern_order(spec.mask);
  args.bias_order = instance::pattern_order(spec.bias);
  static_cast<ScoreOptions&>(args) = spec;
  return args;
}

BackwardArgs backward_shape_args(const instance::ProblemSpec& spec) {
  BackwardArgs args;
  args.forward = shape_args(spec);
  args.dout = args.forward.out;
  args.dq = args.forward.q;
  args.dk = args.forward.k;
  args.dv = args.forward.v;
  if (spec.want_dlse) args.dlse = static_cast<const float*>(placeholder());
  if (spec.want_dbias) {
    args.dbias = args.forward.bias;
    args.dbias->dtype = spec.dbias_dtype.value_or(args.dbias->dtype);
  }
  if (spec.want_dsink) args.dsink = dense(DType::kFloat32, {1, spec.heads_q, 1, 1}, "dsink");
  args.deterministic = spec.deterministic;
  return args;
}

problem::Problem make_problem(const instance::ProblemSpec& spec) {
  return make_supported(spec, shape_args);
}

problem::BackwardProblem make_backward_problem(const instance::ProblemSpec& spec) {
  return make_supported(spec, backward_shape_args);
}

bool is_empty(const instance::ProblemSpec& spec) {
  return spec.backward ? make_backward_problem(spec).empty() : !make_problem(spec).has_rows();
}

double tensor_bytes(const instance::ProblemSpec& spec) {
  const ForwardArgs args = shape_args(spec);
  const double rows = bytes(args.q) + bytes(args.k) + bytes(args.v) + bytes(args.out);
  const double bias = args.bias ? bytes(*args.bias) : 0;
  const double mask = args.mask            ? bytes(*args.mask)
                      : args.prepared_mask ? elements(args.prepared_mask->shape)
                                           : 0;
  double total = rows + bias + mask;
  if (args.tail_mask) total += bytes(*args.tail_mask);
  if (spec.backward) total += rows;  // dq, dk, dv and dout lie as they do
  if (spec.want_dbias) total += bytes(*backward_shape_args(spec).dbias);
  return total;
}

}  // namespace attnjit::cli
