#include "instance/host_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "attnjit/error.hpp"
#include "instance/blocks_spec.hpp"
#include "instance/buffer_specs.hpp"
#include "instance/call_args.hpp"
#include "instance/forward_results.hpp"
#include "instance/key_indices_spec.hpp"
#include "instance/pages.hpp"
#include "instance/poison.hpp"
#include "instance/sequences.hpp"
#include "tensor/fill.hpp"
#include "tensor/half.hpp"
#include "tensor/random.hpp"

namespace attnjit::instance {
namespace {

void add_line(std::string& text, const std::string& line) {
  text += line.empty() ? line : line + "\n";
}

}  // namespace

HostProblem::HostProblem(const ProblemSpec& spec, unsigned jobs) : spec_(spec) {
  validate(spec);
  for (const BufferSpec& buffer : buffer_specs(spec)) {
    buffers_.emplace_back(std::string(buffer.name), buffer.role, buffer.is_output, buffer.view,
                          spec.memory.base_offset);
  }
  fill(jobs);
}

void HostProblem::fill(unsigned jobs) {
  const tensor::Random root(spec_.seed);
  std::size_t operand = 0;
  for (HostBuffer& buffer : buffers_) {
    const tensor::Random random = root.stream(static_cast<std::uint64_t>(buffer.role()));
    switch (buffer.role()) {
      case BufferRole::kQ:
        tensor::fill_normal(buffer.tensor(), random, 0, spec_.query_stddev, jobs);
        break;
      case BufferRole::kK:
      case BufferRole::kV:
      case BufferRole::kDout:
      case BufferRole::kDlse:
        tensor::fill_normal(buffer.tensor(), random, 0, 1, jobs);
        break;
      case BufferRole::kMask:
        if (spec_.mask_kind == tensor::MaskKind::kTopBias && spec_.mask == spec_.bias) {
          tensor::fill_top_bias(buffer.tensor(), find(BufferRole::kBias)->tensor(),
                                spec_.mask_density, jobs);
        } else {
          tensor::fill_mask(buffer.tensor(), spec_.mask_kind, spec_.mask_density, random, jobs);
        }
        break;
      case BufferRole::kBias:
        tensor::fill_bias(buffer.tensor(), spec_.bias_kind, random, jobs);
        break;
      case BufferRole::kSink:
        tensor::fill_normal(buffer.tensor(), random, 0, 2, jobs);
        set_heads(buffer, spec_.sinks);
        break;
      case BufferRole::kAlibiSlopes:
        tensor::fill_slopes(buffer.tensor());
        set_heads(buffer, spec_.slopes);
        break;
      case BufferRole::kSeqlensQ:
        fill_seqlens(buffer, spec_.use_seqlens_q, spec_.seqlens_q, spec_.seqlen_q);
        break;
      case BufferRole::kSeqlensKv:
        fill_seqlens(buffer, spec_.use_seqlens_kv, spec_.seqlens_kv, spec_.seqlen_kv);
        break;
      case BufferRole::kCuSeqlensQ:
        std::ranges::copy(packed_begins(spec_).q, static_cast<std::int32_t*>(buffer.data()));
        break;
      case BufferRole::kCuSeqlensKv:
        std::ranges::copy(packed_begins(spec_).kv, static_cast<std::int32_t*>(buffer.data()));
        break;
      case BufferRole::kBlockTable:
        fill_table(buffer);
        break;
      case BufferRole::kTailMask:
        tensor::fill_mask(buffer.tensor(), tensor::MaskKind::kRandom, 0.7, random, jobs);
        break;
      case BufferRole::kBlockIndices:
      case BufferRole::kFullIndices:
        fill_lists(buffer, random);
        break;
      case BufferRole::kKeyIndices:
        fill_key_indices(buffer.tensor(), spec_.seqlen_kv,
                         parse_key_indices(spec_.key_indices).is_faulty, random);
        break;
      case BufferRole::kOperand:
        fill_operand(spec_, spec_.operands[operand], buffer.tensor(), root.stream(200 + operand));
        ++operand;
        break;
      case BufferRole::kBlockCounts:  // with their lists
      case BufferRole::kFullCounts:
      case BufferRole::kOut:
      case BufferRole::kLse:
      case BufferRole::kRowMax:
      case BufferRole::kMaxLogits:
      case BufferRole::kDq:
      case BufferRole::kDk:
      case BufferRole::kDv:
      case BufferRole::kDbias:
      case BufferRole::kDsink:
      case BufferRole::kOperandGradient:
        break;
    }
  }
  if (spec_.dominant_key && spec_.seqlen_kv > 0) add_first_key();
  if (spec_.poison_dropped_keys || spec_.paged()) {
    poison_unread_inputs(args());
  }
  if (spec_.backward && !spec_.leave_out) {
    fill_backward_inputs(jobs);
  }
  for (const HostBuffer& buffer : buffers_) {
    checksums_.push_back(buffer.is_output() ? 0 : buffer.checksum());
  }
}

void HostProblem::add_first_key() {
  const Tensor q = find(BufferRole::kQ)->tensor(), k = find(BufferRole::kK)->tensor();
  for (std::int64_t row = 0; row < q.shape[0] * q.shape[1] * q.shape[2]; ++row) {
    const std::int64_t query = row % q.shape[2], plane = row / q.shape[2];
    const std::int64_t batch = plane / q.shape[1], head = plane % q.shape[1];
    const std::int64_t head_kv = head / (q.shape[1] / k.shape[1]);
    for (std::int64_t d = 0; d < q.shape[3]; ++d) {
      const std::int64_t at = batch * q.strides[0] + head * q.strides[1] + query * q.strides[2] + d;
      const double of_key =
          tensor::load(k.data, k.dtype, batch * k.strides[0] + head_kv * k.strides[1] + d);
      const double sum = tensor::load(q.data, q.dtype, at) + 2 * of_key;
      tensor::store(q.data, q.dtype, at, sum);
    }
  }
}

void HostProblem::fill_backward_inputs(unsigned jobs) {
  const ForwardArgs call = args();
  const reference::ForwardResult result = write_forward_results(call, jobs);
  if (spec_.poison_dropped_keys) {
    const HostBuffer* dlse = find(BufferRole::kDlse);
    poison_dead_rows(result.dead, call.lse, find(BufferRole::kDout)->tensor(),
                     dlse == nullptr ? nullptr : static_cast<float*>(dlse->data()));
  }
}

void HostProblem::set_heads(HostBuffer& buffer, const std::vector<float>& given) {
  const Tensor tensor = buffer.tensor();
  const std::int64_t count = given.empty() ? 0 : tensor.shape[0] * spec_.heads_q;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t batch = i / spec_.heads_q, head = i % spec_.heads_q;
    tensor::store(tensor.data, tensor.dtype, batch * tensor.strides[0] + head * tensor.strides[1],
                  given[static_cast<std::size_t>(i) % given.size()]);
  }
}

void HostProblem::fill_seqlens(HostBuffer& buffer, bool random_lengths,
                               const std::vector<std::int32_t>& given, std::int64_t length) {
  const tensor::Random random =
      tensor::Random(spec_.seed).stream(100 + static_cast<std::uint64_t>(buffer.role()));
  auto* lengths = static_cast<std::int32_t*>(buffer.data());
  for (std::int64_t b = 0; b < spec_.batch; ++b) {
    const std::int64_t special[] = {length, 0, length + 1, -1};
    const std::int64_t value = !random_lengths ? length
                               : b < 4         ? special[b]
                                       : random.below(static_cast<std::uint64_t>(b), length + 1);
    lengths[b] =
        given.empty() ? static_cast<std::int32_t>(value) : given[static_cast<std::size_t>(b)];
  }
}

void HostProblem::fill_table(HostBuffer& buffer) {
  const auto* const lengths =
      static_cast<const std::int32_t*>(find(BufferRole::kSeqlensKv)->data());
  const auto numbers = page_numbers(spec_, {lengths, static_cast<std::size_t>(spec_.batch)});
  auto* const table = static_cast<std::int32_t*>(buffer.data());
  const std::int64_t pages = spec_.max_pages(), stride = buffer.tensor().strides[0];
  for (std::int64_t b = 0; b < spec_.batch; ++b) {
    std::copy_n(numbers.begin() + b * pages, pages, table + b * stride);
  }
}

void HostProblem::fill_lists(HostBuffer& buffer, tensor::Random random) {
  const BlocksSpec blocks = parse_blocks(spec_.blocks);
  const bool full = buffer.role() == BufferRole::kFullIndices;
  const HostBuffer& counts = *find(full ? BufferRole::kFullCounts : BufferRole::kBlockCounts);
  const std::int64_t keys = pattern_shape(spec_, "11qk", "blocks")[3];
  fill_blocks(buffer.tensor(), counts.tensor(), (keys + blocks.keys - 1) / blocks.keys,
              full ? blocks.full : blocks.listed, blocks.is_faulty, random);
}

HostBuffer* HostProblem::find(BufferRole role) {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [role](const HostBuffer& b) { return b.role() == role; });
  return found == buffers_.end() ? nullptr : &*found;
}

const HostBuffer* HostProblem::find(BufferRole role) const {
  return const_cast<HostProblem*>(this)->find(role);
}

std::vector<void*> HostProblem::bases() const {
  std::vector<void*> bases;
  for (const HostBuffer& buffer : buffers_) {
    bases.push_back(static_cast<std::byte*>(buffer.data()) - buffer.data_offset());
  }
  return bases;
}

ForwardArgs HostProblem::args_at(std::span<void* const> bases) const {
  return all_args_at(bases).forward;
}

BackwardArgs HostProblem::backward_args_at(std::span<void* const> bases) const {
  if (!spec_.backward) {
    throw Error(ErrorKind::kInternal, "backward_args: the problem is a forward; set spec.backward");
  }
  return all_args_at(bases);
}

BackwardArgs HostProblem::all_args_at(std::span<void* const> bases) const {
  if (bases.size() != buffers_.size()) {
    throw Error(ErrorKind::kInternal,
                fmt::format("args_at: {} bases for {} buffers", bases.size(), buffers_.size()));
  }
  BackwardArgs args = options_of(spec_);
  std::vector<Tensor> operands, gradients;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const Tensor tensor = buffers_[i].tensor_at(bases[i]);
    set_tensor(args, buffers_[i].role(), tensor);
    if (buffers_[i].role() == BufferRole::kOperand) operands.push_back(tensor);
    if (buffers_[i].role() == BufferRole::kOperandGradient) gradients.push_back(tensor);
  }
  if (!operands.empty()) {
    args.forward.operands = operands_[bases[0]] = operands_of(spec_, operands);
  }
  if (!gradients.empty()) {
    args.operand_gradients = gradients_[bases[0]] = gradients_of(spec_, gradients);
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

}  // namespace attnjit::instance
