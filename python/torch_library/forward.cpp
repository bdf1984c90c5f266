#include "forward.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "launch.hpp"
#include "tensors.hpp"

namespace attnjit::torch_library {
namespace {

using torch::headeronly::ScalarType;

const attnjit_expression* expression(attnjit_context* context,
                                     const std::optional<std::string>& text) {
  const attnjit_expression* made = nullptr;
  if (text) check(attnjit_expression_create(context, text->c_str(), &made));
  return made;
}

}  // namespace

ForwardCall::ForwardCall(attnjit_context* context, const ForwardInputs& inputs)
    : device_(inputs.q.get_device()),
      q_(with_dense_rows(inputs.q)),
      k_(with_dense_rows(inputs.k)),
      v_(with_dense_rows(inputs.v)) {
  set_tensors(inputs);
  set_lengths(inputs);
  set_mask(inputs);
  set_blocks(inputs);
  if (inputs.key_indices) {
    key_indices_ = selected_keys(*inputs.key_indices, "key_indices", device_);
    args_.key_indices = &key_indices_;
  }
  set_expressions(context, inputs);
  if (inputs.scale) {
    args_.has_scale = 1;
    args_.scale = static_cast<float>(*inputs.scale);
  }
  args_.causal = inputs.causal ? 1 : 0;
  args_.diagonal = static_cast<std::int32_t>(inputs.diagonal);
  args_.has_window = inputs.window_left != -1 || inputs.window_right != -1 ? 1 : 0;
  args_.window_left = inputs.window_left;
  args_.window_right = inputs.window_right;
  args_.softcap = static_cast<float>(inputs.softcap);
  args_.diagonal_offset = inputs.diagonal_offset;
  args_.row_offset = inputs.row_offset;
  args_.key_offset = inputs.key_offset;
  make_results(inputs);
}

void ForwardCall::set_tensors(const ForwardInputs& inputs) {
  args_.q = whole(q_, "q", device_);
  args_.k = whole(k_, "k", device_);
  args_.v = whole(v_, "v", device_);
  if (inputs.bias) {
    bias_ = broadcast(*inputs.bias, "bias", device_);
    args_.bias = &bias_;
  }
  if (inputs.sink) {
    sink_ = per_head(*inputs.sink, "sink", device_);
    args_.sink = &sink_;
  }
  if (inputs.alibi_slopes) {
    alibi_slopes_ = per_head(*inputs.alibi_slopes, "alibi_slopes", device_);
    args_.alibi_slopes = &alibi_slopes_;
  }
  if (inputs.tail_mask) {
    tail_mask_ = broadcast(*inputs.tail_mask, "tail_mask", device_);
    args_.tail_mask = &tail_mask_;
  }
}

void ForwardCall::set_lengths(const ForwardInputs& inputs) {
  std::int64_t batch = args_.q.shape[0];
  const auto begins = [&](const std::optional<Tensor>& tensor, const char* name) {
    if (!tensor) return static_cast<const std::int32_t*>(nullptr);
    batch = args_.num_sequences = tensor->numel() - 1;
    return numbers(*tensor, name, device_);
  };
  args_.cu_seqlens_q = begins(inputs.cu_seqlens_q, "cu_seqlens_q");
  args_.cu_seqlens_kv = begins(inputs.cu_seqlens_kv, "cu_seqlens_kv");
  if (inputs.cu_seqlens_q && inputs.cu_seqlens_kv &&
      inputs.cu_seqlens_q->numel() != inputs.cu_seqlens_kv->numel()) {
    throw std::runtime_error("cu_seqlens_kv: expected as many numbers as cu_seqlens_q has");
  }
  const auto lengths = [&](const std::optional<Tensor>& tensor, const char* name) {
    if (!tensor) return static_cast<const std::int32_t*>(nullptr);
    if (tensor->numel() != batch) {
      throw std::runtime_error(std::string(name) + ": expected a number for each batch element");
    }
    return numbers(*tensor, name, device_);
  };
  args_.seqlens_q = lengths(inputs.seqlens_q, "seqlens_q");
  args_.seqlens_kv = lengths(inputs.seqlens_kv, "seqlens_kv");
  if (!inputs.block_table) return;
  const Tensor& table = *inputs.block_table;
  const attnjit_operand read = operand(table, "block_table", device_);
  if (read.tensor.dtype != ATTNJIT_INT32 || read.rank != 2 || table.size(0) != batch ||
      (table.size(1) > 1 && table.stride(1) != 1)) {
    throw std::runtime_error(
        "block_table: expected int32 (batch or sequences, pages) with neighbours in a row");
  }
  args_.block_table = static_cast<const std::int32_t*>(read.tensor.data);
  args_.max_pages = table.size(1);
  args_.block_table_stride = batch <= 1 ? table.size(1) : table.stride(0);
}

void ForwardCall::set_mask(const ForwardInputs& inputs) {
  if (inputs.mask && inputs.prepared_mask) {
    const std::vector<std::int64_t>& numbers = *inputs.prepared_mask;
    if (numbers.size() != 5) {
      throw std::runtime_error("prepared_mask: expected four axes and whether it is for gradients");
    }
    prepared_mask_.data = bytes(*inputs.mask, "mask", device_);
    std::copy_n(numbers.begin(), 4, prepared_mask_.shape);
    prepared_mask_.for_backward = static_cast<std::int32_t>(numbers[4]);
    args_.prepared_mask = &prepared_mask_;
  } else if (inputs.mask) {
    mask_ = broadcast(*inputs.mask, "mask", device_);
    args_.mask = &mask_;
  }
  if (!inputs.plane_orders) return;
  const std::vector<std::int64_t>& orders = *inputs.plane_orders;
  if (orders.size() != 4) throw std::runtime_error("plane_orders: expected four numbers");
  args_.mask_inner = orders[0];
  args_.mask_cycle = orders[1];
  args_.bias_inner = orders[2];
  args_.bias_cycle = orders[3];
}

void ForwardCall::set_blocks(const ForwardInputs& inputs) {
  if (!inputs.block_sizes) return;
  const std::vector<std::int64_t>& sizes = *inputs.block_sizes;
  if (sizes.size() != 3 || !inputs.block_indices || !inputs.block_counts) {
    throw std::runtime_error(
        "block_sizes: expected rows and keys of a block and a number of blocks, with block_indices "
        "and block_counts");
  }
  blocks_.block_q = sizes[0];
  blocks_.block_kv = sizes[1];
  blocks_.num_kv_blocks = sizes[2];
  blocks_.indices = operand(*inputs.block_indices, "blocks.indices", device_).tensor;
  blocks_.counts = operand(*inputs.block_counts, "blocks.counts", device_).tensor;
  if (inputs.full_block_indices) {
    full_block_indices_ =
        operand(*inputs.full_block_indices, "blocks.full_indices", device_).tensor;
    blocks_.full_indices = &full_block_indices_;
  }
  if (inputs.full_block_counts) {
    full_block_counts_ = operand(*inputs.full_block_counts, "blocks.full_counts", device_).tensor;
    blocks_.full_counts = &full_block_counts_;
  }
  args_.blocks = &blocks_;
}

void ForwardCall::set_expressions(attnjit_context* context, const ForwardInputs& inputs) {
  args_.score = expression(context, inputs.score);
  args_.keep = expression(context, inputs.keep);
  const std::size_t count = inputs.read ? inputs.read->size() : 0;
  if (count != inputs.operand_names.size()) {
    throw std::runtime_error("read: expected as many tensors as operand_names has");
  }
  for (std::size_t n = 0; n < count; ++n) {
    operands_.push_back(operand((*inputs.read)[n], inputs.operand_names[n].c_str(), device_));
  }
  args_.operands = operands_.data();
  args_.num_operands = static_cast<std::int64_t>(count);
}

void ForwardCall::make_results(const ForwardInputs& inputs) {
  const std::int64_t* const q = args_.q.shape;
  const std::int64_t width = args_.v.shape[3];
  const std::array<std::int64_t, 4> sizes{q[0], q[1], q[2], width};
  const std::array<std::int64_t, 4> strides =
      inputs.sequence_major ? std::array{q[2] * q[1] * width, width, q[1] * width, std::int64_t{1}}
                            : std::array{q[1] * q[2] * width, q[2] * width, width, std::int64_t{1}};
  results_.push_back(new_strided(q_.scalar_type(), device_, sizes, strides));
  args_.out = whole(results_.back(), "out", device_);
  const auto add = [&](bool wanted, std::span<const std::int64_t> of) {
    const std::array<std::int64_t, 1> none{0};
    results_.push_back(new_contiguous(ScalarType::Float, device_,
                                      wanted ? of : std::span<const std::int64_t>(none)));
    return wanted ? static_cast<float*>(results_.back().data_ptr()) : nullptr;
  };
  args_.lse = add(inputs.need_lse, {q, 3});
  args_.row_max = add(inputs.need_row_max, {q, 3});
  args_.max_logits = add(inputs.need_max_logits, {q + 1, 1});
}

}  // namespace attnjit::torch_library
