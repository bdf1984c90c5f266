#include "reference/score_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attnjit/error.hpp"

namespace attnjit::reference {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kInvalidProblem, message);
}

std::optional<std::int64_t> window_side(std::int64_t side, std::int64_t limit) {
  // A side past every key is as good as open, and adding it could overflow.
  return side < 0 || side > limit ? std::nullopt : std::optional(side);
}

std::int64_t in_use(const std::int32_t* seqlens, std::int64_t batch, std::int64_t length) {
  return seqlens == nullptr ? length : std::clamp<std::int64_t>(seqlens[batch], 0, length);
}

void check_axis(std::string_view name, std::string_view axis, std::int64_t got,
                std::int64_t expected) {
  if (got != expected) {
    refuse(fmt::format("{}: {} axis is {}; expected {}", name, axis, got, expected));
  }
}

void check_broadcast(std::string_view name, const Tensor& tensor, const ForwardArgs& args) {
  static constexpr std::string_view kAxes[] = {"batch", "head", "query", "key"};
  const std::array<std::int64_t, 4> full = {args.q.shape[0], args.q.shape[1], args.q.shape[2],
                                            args.k.shape[2]};
  for (std::size_t axis = 0; axis < full.size(); ++axis) {
    const std::int64_t got = tensor.shape[axis];
    const bool per_kv_head = axis == 1 && got == args.k.shape[1];
    if (got != 1 && got != full[axis] && !per_kv_head) {
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
  check_axis("k", "batch", batch_k, batch);
  check_axis("k", "feature", head_dim_k, head_dim);
  check_axis("v", "batch", args.v.shape[0], batch);
  check_axis("v", "head", args.v.shape[1], heads_kv);
  check_axis("v", "sequence", args.v.shape[2], seqlen_kv);
  check_axis("out", "batch", args.out.shape[0], batch);
  check_axis("out", "head", args.out.shape[1], heads_q);
  check_axis("out", "sequence", args.out.shape[2], seqlen_q);
  check_axis("out", "feature", args.out.shape[3], args.v.shape[3]);
}

}  // namespace

KeyRange unite(KeyRange a, KeyRange b) {
  if (a.begin >= a.end || b.begin >= b.end) {
    return a.begin < a.end ? a : b;
  }
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

BroadcastView::BroadcastView(const Tensor& tensor, std::int64_t heads_q)
    : data(tensor.data), dtype(tensor.dtype), strides(tensor.strides) {
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (tensor.shape[axis] == 1) {
      strides[axis] = 0;
    }
  }
  heads_per_plane = tensor.shape[1] > 0 ? std::max<std::int64_t>(heads_q / tensor.shape[1], 1) : 1;
}

ScoreRule::ScoreRule(const ForwardArgs& args)
    : seqlen_q_(args.q.shape[2]),
      seqlen_kv_(args.k.shape[2]),
      seqlens_q_(args.seqlens_q),
      seqlens_kv_(args.seqlens_kv),
      left_(window_side(args.window.left, seqlen_q_ + seqlen_kv_)),
      right_(args.causal ? std::optional<std::int64_t>(0)
                         : window_side(args.window.right, seqlen_q_ + seqlen_kv_)),
      bottom_right_(args.diagonal == Diagonal::kBottomRight) {
  if (args.mask) {
    mask_.emplace(*args.mask, args.q.shape[1]);
  }
  if (args.bias) {
    bias_.emplace(*args.bias, args.q.shape[1]);
  }
}

std::int64_t ScoreRule::rows_in_use(std::int64_t batch) const {
  return in_use(seqlens_q_, batch, seqlen_q_);
}

std::int64_t ScoreRule::keys_in_use(std::int64_t batch) const {
  return in_use(seqlens_kv_, batch, seqlen_kv_);
}

KeyRange ScoreRule::band(std::int64_t batch, std::int64_t query) const {
  const std::int64_t rows = rows_in_use(batch);
  const std::int64_t keys = keys_in_use(batch);
  if (query >= rows) {
    return {};
  }
  const std::int64_t diagonal = query + (bottom_right_ ? keys - rows : 0);
  const std::int64_t begin = left_ ? std::max<std::int64_t>(diagonal - *left_, 0) : 0;
  const std::int64_t end = right_ ? std::min(diagonal + *right_ + 1, keys) : keys;
  return begin < end ? KeyRange{begin, end} : KeyRange{};
}

bool ScoreRule::keep(std::int64_t batch, std::int64_t head, std::int64_t query, KeyRange keys,
                     std::uint8_t* keep) const {
  const KeyRange seen = band(batch, query);
  bool any = false;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    keep[j - keys.begin] = j >= seen.begin && j < seen.end;
    any |= keep[j - keys.begin] != 0;
  }
  if (!any || !mask_) {
    return any;
  }
  // Only keys of the band are looked up: `keys` may reach past the mask's last one.
  const auto* row =
      static_cast<const std::uint8_t*>(mask_->data) + mask_->row_offset(batch, head, query);
  any = false;
  for (std::int64_t j = std::max(keys.begin, seen.begin); j < std::min(keys.end, seen.end); ++j) {
    keep[j - keys.begin] = row[j * mask_->strides[3]] != 0;
    any |= keep[j - keys.begin] != 0;
  }
  return any;
}

void check_args(const ForwardArgs& args) {
  check_shapes(args);
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
  if (args.window.left < -1 || args.window.right < -1) {
    refuse(fmt::format("window: ({}, {}); expected -1 (open) or more", args.window.left,
                       args.window.right));
  }
  const bool banded = args.causal || args.window.left >= 0 || args.window.right >= 0;
  if (banded && args.diagonal == Diagonal::kUnspecified) {
    refuse("diagonal: not named; causal and window need top_left or bottom_right");
  }
  if (args.scale && !std::isfinite(*args.scale)) {
    refuse(fmt::format("scale: {}; expected a finite value", *args.scale));
  }
}

}  // namespace attnjit::reference
