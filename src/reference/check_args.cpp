#include "reference/check_args.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attnjit/error.hpp"
#include "reference/paged.hpp"
#include "reference/sequences.hpp"

namespace attnjit::reference {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kInvalidProblem, message);
}

void check_axis(std::string_view name, std::string_view axis, std::int64_t got,
                std::int64_t expected) {
  if (got != expected) {
    refuse(fmt::format("{}: {} axis is {}; expected {}", name, axis, got, expected));
  }
}

void check_broadcast(std::string_view name, const Tensor& tensor, const ForwardArgs& args) {
  static constexpr std::string_view kAxes[] = {"batch", "head", "query", "key"};
  const bool packed = is_packed(args);
  const std::array<std::int64_t, 4> full = {packed ? args.num_sequences : args.q.shape[0],
                                            args.q.shape[1], args.q.shape[2], num_keys(args)};
  // Rows and keys of packed sequences that an operand lacks are dropped.
  for (std::size_t axis = 0; axis < (packed ? 2 : full.size()); ++axis) {
    const std::int64_t got = tensor.shape[axis];
    const bool per_kv_head = axis == 1 && got == args.k.shape[1];
    const bool per_group = axis == 0 && got > 1 && full[axis] % got == 0;
    if (got != 1 && got != full[axis] && !per_kv_head && !per_group) {
      refuse(
          fmt::format("{}: {} axis is {}; expected 1 or {}", name, kAxes[axis], got, full[axis]));
    }
  }
}

void check_shapes(const ForwardArgs& args) {
  const auto& [batch, heads_q, seqlen_q, head_dim] = args.q.shape;
  const auto& [batch_k, heads_kv, seqlen_kv, head_dim_k] = args.k.shape;
  for (const Tensor* tensor : {&args.q, &args.k, &args.v, &args.out}) {
    if (*std::min_element(tensor->shape.begin(), tensor->shape.end()) < 0) {
      refuse("q, k, v, out: a size is negative");
    }
  }
  if (heads_kv < 1 || heads_q % heads_kv != 0) {
    refuse(fmt::format("k: head axis is {}; expected a divisor of {}", heads_kv, heads_q));
  }
  if (!is_paged(args)) check_axis("k", "batch", batch_k, batch);
  check_axis("k", "feature", head_dim_k, head_dim);
  check_axis("v", "batch", args.v.shape[0], batch_k);
  check_axis("v", "head", args.v.shape[1], heads_kv);
  check_axis("v", "sequence", args.v.shape[2], seqlen_kv);
  check_axis("out", "batch", args.out.shape[0], batch);
  check_axis("out", "head", args.out.shape[1], heads_q);
  check_axis("out", "sequence", args.out.shape[2], seqlen_q);
  check_axis("out", "feature", args.out.shape[3], args.v.shape[3]);
}

void check_per_head(std::string_view name, const Tensor& tensor, const ForwardArgs& args) {
  check_axis(name, "head", tensor.shape[1], args.q.shape[1]);
  check_axis(name, "query", tensor.shape[2], 1);
  check_axis(name, "key", tensor.shape[3], 1);
}

// Refuses an entry in use that names no page.
void check_pages(const ForwardArgs& args) {
  const std::int64_t elements = is_packed(args) ? args.num_sequences : args.q.shape[0];
  for (std::int64_t b = 0; b < elements; ++b) {
    const std::int64_t keys = std::min<std::int64_t>(args.seqlens_kv[b], num_keys(args));
    for (std::int64_t key = 0; key < keys; key += args.k.shape[2]) page_of(args, b, key);
  }
}

void check_same_shape(std::string_view name, const Tensor& tensor, const Tensor& model) {
  static constexpr std::string_view kAxes[] = {"batch", "head", "sequence", "feature"};
  for (std::size_t axis = 0; axis < model.shape.size(); ++axis) {
    check_axis(name, kAxes[axis], tensor.shape[axis], model.shape[axis]);
  }
}

}  // namespace

void check_args(const ForwardArgs& args) {
  check_shapes(args);
  if (is_packed(args)) check_axis("q", "batch", args.q.shape[0], 1);
  if (args.mask) {
    check_broadcast("mask", *args.mask, args);
    if (args.mask->dtype != DType::kBool) {
      refuse("mask: expected dtype bool");
    }
  }
  if (args.bias) {
    check_broadcast("bias", *args.bias, args);
    if (args.bias->dtype == DType::kBool) {
      refuse("bias: dtype is bool; a boolean mask belongs in mask");
    }
  }
  if (args.sink) {
    check_axis("sink", "batch", args.sink->shape[0], 1);
    check_per_head("sink", *args.sink, args);
  }
  if (args.alibi_slopes) {
    const std::int64_t planes = args.alibi_slopes->shape[0];
    const bool packed = args.cu_seqlens_q != nullptr;
    if (planes != 1) {
      check_axis("alibi_slopes", "batch", planes, packed ? args.num_sequences : args.q.shape[0]);
    }
    check_per_head("alibi_slopes", *args.alibi_slopes, args);
  }
  if (is_paged(args)) {
    if (args.seqlens_kv == nullptr) {
      refuse("seqlens_kv: null with block_table; expected the keys in use");
    }
    check_pages(args);
  }
  if (args.tail_mask) {
    check_axis("tail_mask", "query", args.tail_mask->shape[2], args.q.shape[2]);
    check_axis("tail_mask", "key", args.tail_mask->shape[3], args.q.shape[2]);
  }
  if (args.key_indices) {
    const Tensor& indices = *args.key_indices;
    if (indices.shape[0] != 1)
      check_axis("key_indices", "batch", indices.shape[0], args.q.shape[0]);
    if (indices.shape[1] != 1) check_axis("key_indices", "head", indices.shape[1], args.k.shape[1]);
    check_axis("key_indices", "query", indices.shape[2], 1);
  }
  if (args.window.left < -1 || args.window.right < -1) {
    refuse(fmt::format("window: ({}, {}); expected -1 (open) or more", args.window.left,
                       args.window.right));
  }
  const bool banded = args.causal || args.window.left >= 0 || args.window.right >= 0;
  const bool differ = args.q.shape[2] != num_keys(args) || args.seqlens_q || args.seqlens_kv;
  if ((banded || (args.alibi_slopes && differ)) && args.diagonal == Diagonal::kUnspecified) {
    refuse("diagonal: not named; causal, window and alibi slopes need top_left or bottom_right");
  }
  if (args.scale && !std::isfinite(*args.scale)) {
    refuse(fmt::format("scale: {}; expected a finite value", *args.scale));
  }
}

void check_args(const BackwardArgs& args) {
  check_args(args.forward);
  check_same_shape("dout", args.dout, args.forward.out);
  check_same_shape("dq", args.dq, args.forward.q);
  check_same_shape("dk", args.dk, args.forward.k);
  check_same_shape("dv", args.dv, args.forward.v);
  if (args.dsink && !args.forward.sink) {
    refuse("dsink: asked for without a sink; expected a sink");
  }
  if (args.dsink) check_same_shape("dsink", *args.dsink, *args.forward.sink);
  if (args.dbias && !args.forward.bias) {
    refuse("dbias: asked for without a bias; expected a bias");
  }
  if (args.dbias) {
    check_broadcast("dbias", *args.dbias, args.forward);
  }
}

}  // namespace attnjit::reference
