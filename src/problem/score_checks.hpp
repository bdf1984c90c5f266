#pragma once
// Rules for what enters scores beside masks and biases: sinks, slopes, bands. As checks.hpp.
#include "problem/checks.hpp"

namespace attnjit::problem::checks {

inline PerHead check_per_head(const char* what, const Tensor& tensor, const Problem& p) {
  for (const int axis : {2, 3}) expect_size(what, tensor, axis, 1, "a number per query head");
  expect_size(what, tensor, 1, p.num_heads_q, "q's heads");
  check_memory(what, tensor);
  return {true, tensor.dtype, tensor.shape[0] <= 1 ? 0 : tensor.strides[0],
          p.num_heads_q == 1 ? 0 : tensor.strides[1]};
}

inline void check_sink(const ForwardArgs& args, Problem& p) {
  if (!args.sink) return;
  if (args.sink->dtype != p.dtype && args.sink->dtype != DType::kFloat32) {
    reject("sink: dtype is {}; expected {} (as q) or fp32", name(args.sink->dtype), name(p.dtype));
  }
  expect_size("sink", *args.sink, 0, 1, "a number per query head");
  p.sink = check_per_head("sink", *args.sink, p);
}

inline void check_alibi(const ForwardArgs& args, Problem& p) {
  if (!args.alibi_slopes) return;
  expect_dtype("alibi_slopes", *args.alibi_slopes, DType::kFloat32);
  expect_axis("alibi_slopes", "batch", args.alibi_slopes->shape[0], p.batch,
              p.packed ? "sequences" : "batch of q");
  p.alibi = check_per_head("alibi_slopes", *args.alibi_slopes, p);
}

inline std::int32_t window_side(const char* side, std::int64_t width) {
  if (width < -1) reject("window: {} is {}; expected -1 (open) or a number of keys", side, width);
  // Past every key even if the diagonal moves as far as it may.
  return static_cast<std::int32_t>(std::min(std::max<std::int64_t>(width, 0), 2 * kMaxSeqlen));
}

inline void check_band(const ForwardArgs& args, Problem& p) {
  const auto diagonal = static_cast<std::int32_t>(args.diagonal);
  if (diagonal < 0 || diagonal > static_cast<std::int32_t>(Diagonal::kBottomRight)) {
    reject("diagonal: value {}; expected unspecified, top_left or bottom_right", diagonal);
  }
  p.left = window_side("left", args.window.left);
  p.right = window_side("right", args.window.right);
  p.bounded_left = args.window.left >= 0;
  p.bounded_right = args.window.right >= 0 || args.causal;
  if (args.causal) p.right = 0;
  if (args.diagonal_offset < -kMaxSeqlen || args.diagonal_offset > kMaxSeqlen) {
    reject("diagonal_offset: {}; expected {} to {}", args.diagonal_offset, -kMaxSeqlen, kMaxSeqlen);
  }
  if (!p.has_diagonal()) return;
  const bool banded =
      p.bounded_left || p.bounded_right || uses_offset(p.score) || uses_offset(p.keep);
  const bool differ = p.packed || p.seqlen_q != p.seqlen_kv || args.seqlens_q || args.seqlens_kv;
  if (args.diagonal == Diagonal::kUnspecified && (banded || differ)) {
    reject(
        "diagonal: unspecified with {}; expected top_left or bottom_right (they differ when "
        "Lq != Lk)",
        args.causal                         ? "causal"
        : p.bounded_left || p.bounded_right ? "a window"
        : banded                            ? "an expression that reads off"
                                            : "alibi_slopes");
  }
  p.bottom_right = args.diagonal == Diagonal::kBottomRight;
  p.diagonal_offset = static_cast<std::int32_t>(args.diagonal_offset);
}

}  // namespace attnjit::problem::checks
