#include "reference/host_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "attnjit/error.hpp"
#include "reference/poison.hpp"
#include "reference/random.hpp"

namespace attnjit::reference {
namespace {

using Shape = std::array<std::int64_t, 4>;

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
  const Shape shape = pattern_shape(spec, pattern, what);
  const std::int64_t row = shape[3] + spec.memory.row_padding;
  Tensor view{nullptr, dtype, shape, {shape[1] * shape[2] * row, shape[2] * row, row, 1}};
  if (spec.memory.expand_broadcast) {
    const Shape full = pattern_shape(spec, "bhqk", what);
    for (std::size_t axis = 0; axis < full.size(); ++axis) {
      if (pattern[axis] == '1') {
        view.shape[axis] = full[axis];
        view.strides[axis] = 0;
      }
    }
  }
  return view;
}

void add_line(std::string& text, const std::string& line) {
  text += line.empty() ? line : line + "\n";
}

}  // namespace

HostProblem::HostProblem(const ProblemSpec& spec, unsigned jobs) : spec_(spec) {
  validate(spec);
  const auto add = [this](std::string name, BufferRole role, bool is_output, const Tensor& view) {
    buffers_.emplace_back(std::move(name), role, is_output, view, spec_.memory.base_offset);
  };
  const std::int64_t dim_v = spec.value_dim();
  const Shape q{spec.batch, spec.heads_q, spec.seqlen_q, spec.head_dim};
  const Shape k{spec.batch, spec.heads_kv, spec.seqlen_kv, spec.head_dim};
  const Shape v{spec.batch, spec.heads_kv, spec.seqlen_kv, dim_v};
  const Shape out{spec.batch, spec.heads_q, spec.seqlen_q, dim_v};
  const Shape lengths{spec.batch, 1, 1, 1};
  add("q", BufferRole::kQ, false, sequence_view(spec, q, false));
  add("k", BufferRole::kK, false, sequence_view(spec, k, false));
  add("v", BufferRole::kV, false, sequence_view(spec, v, spec.memory.v_differs));
  add("out", BufferRole::kOut, true, sequence_view(spec, out, false));
  // Bias before mask, which may follow from it.
  if (!spec.bias.empty()) {
    add("bias", BufferRole::kBias, false,
        score_view(spec, spec.bias, "bias", spec.bias_dtype.value_or(spec.dtype)));
  }
  if (!spec.mask.empty()) {
    add("mask", BufferRole::kMask, false, score_view(spec, spec.mask, "mask", DType::kBool));
  }
  if (spec.want_lse) {
    const Shape lse{spec.batch, spec.heads_q, 1, spec.seqlen_q};
    add("lse", BufferRole::kLse, true, Tensor::contiguous(nullptr, DType::kFloat32, lse));
  }
  if (spec.use_seqlens_q) {
    add("seqlens_q", BufferRole::kSeqlensQ, false,
        Tensor::contiguous(nullptr, DType::kFloat32, lengths));
  }
  if (spec.use_seqlens_kv) {
    add("seqlens_kv", BufferRole::kSeqlensKv, false,
        Tensor::contiguous(nullptr, DType::kFloat32, lengths));
  }
  fill(jobs);
}

void HostProblem::fill(unsigned jobs) {
  const Random root(spec_.seed);
  for (HostBuffer& buffer : buffers_) {
    const Random random = root.stream(static_cast<std::uint64_t>(buffer.role()));
    switch (buffer.role()) {
      case BufferRole::kQ:
      case BufferRole::kK:
      case BufferRole::kV:
        fill_normal(buffer.tensor(), random, 0, 1, jobs);
        break;
      case BufferRole::kMask:
        if (spec_.mask_kind == MaskKind::kTopBias && spec_.mask == spec_.bias) {
          fill_top_bias(buffer.tensor(), find(BufferRole::kBias)->tensor(), spec_.mask_density,
                        jobs);
        } else {
          fill_mask(buffer.tensor(), spec_.mask_kind, spec_.mask_density, random, jobs);
        }
        break;
      case BufferRole::kBias:
        fill_bias(buffer.tensor(), spec_.bias_kind, random, jobs);
        break;
      case BufferRole::kSeqlensQ:
        fill_seqlens(buffer, spec_.seqlens_q, spec_.seqlen_q);
        break;
      case BufferRole::kSeqlensKv:
        fill_seqlens(buffer, spec_.seqlens_kv, spec_.seqlen_kv);
        break;
      case BufferRole::kOut:
      case BufferRole::kLse:
        break;
    }
  }
  if (spec_.poison_dropped_keys) {
    poison_unread_keys(args());
  }
  for (const HostBuffer& buffer : buffers_) {
    checksums_.push_back(buffer.is_output() ? 0 : buffer.checksum());
  }
}

void HostProblem::fill_seqlens(HostBuffer& buffer, const std::vector<std::int32_t>& given,
                               std::int64_t length) {
  const Random random = Random(spec_.seed).stream(100 + static_cast<std::uint64_t>(buffer.role()));
  auto* lengths = static_cast<std::int32_t*>(buffer.data());
  for (std::int64_t b = 0; b < spec_.batch; ++b) {
    const std::int64_t special[] = {length, 0, length + 1, -1};
    const std::int64_t value =
        b < 4 ? special[b] : random.below(static_cast<std::uint64_t>(b), length + 1);
    lengths[b] =
        given.empty() ? static_cast<std::int32_t>(value) : given[static_cast<std::size_t>(b)];
  }
}

HostBuffer* HostProblem::find(BufferRole role) {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [role](const HostBuffer& b) { return b.role() == role; });
  return found == buffers_.end() ? nullptr : &*found;
}

const HostBuffer* HostProblem::find(BufferRole role) const {
  return const_cast<HostProblem*>(this)->find(role);
}

ForwardArgs HostProblem::args() const {
  std::vector<void*> bases;
  for (const HostBuffer& buffer : buffers_) {
    bases.push_back(static_cast<std::byte*>(buffer.data()) - buffer.data_offset());
  }
  return args_at(bases);
}

ForwardArgs HostProblem::args_at(std::span<void* const> bases) const {
  if (bases.size() != buffers_.size()) {
    throw Error(ErrorKind::kInternal,
                fmt::format("args_at: {} bases for {} buffers", bases.size(), buffers_.size()));
  }
  ForwardArgs args;
  args.causal = spec_.causal;
  args.window = spec_.window;
  args.diagonal = spec_.diagonal;
  args.scale = spec_.scale;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const Tensor tensor = buffers_[i].tensor_at(bases[i]);
    switch (buffers_[i].role()) {
      case BufferRole::kQ:
        args.q = tensor;
        break;
      case BufferRole::kK:
        args.k = tensor;
        break;
      case BufferRole::kV:
        args.v = tensor;
        break;
      case BufferRole::kOut:
        args.out = tensor;
        break;
      case BufferRole::kMask:
        args.mask = tensor;
        break;
      case BufferRole::kBias:
        args.bias = tensor;
        break;
      case BufferRole::kLse:
        args.lse = static_cast<float*>(tensor.data);
        break;
      case BufferRole::kSeqlensQ:
        args.seqlens_q = static_cast<const std::int32_t*>(tensor.data);
        break;
      case BufferRole::kSeqlensKv:
        args.seqlens_kv = static_cast<const std::int32_t*>(tensor.data);
        break;
    }
  }
  return args;
}

void HostProblem::poison_outputs() {
  for (HostBuffer& buffer : buffers_) {
    if (buffer.is_output()) {
      buffer.poison();
    }
  }
}

std::string HostProblem::check_guards() const {
  std::string text;
  for (const HostBuffer& buffer : buffers_) {
    add_line(text, buffer.is_output() ? buffer.check_guards() : std::string());
  }
  return text;
}

std::string HostProblem::check_written() const {
  std::string text;
  for (const HostBuffer& buffer : buffers_) {
    add_line(text, buffer.is_output() ? buffer.check_written() : std::string());
  }
  return text;
}

std::string HostProblem::check_inputs() const {
  std::string text;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].is_output() && buffers_[i].checksum() != checksums_[i]) {
      add_line(text, fmt::format("{}: the input was modified", buffers_[i].name()));
    }
  }
  return text;
}

}  // namespace attnjit::reference
