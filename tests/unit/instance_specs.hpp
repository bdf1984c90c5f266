#pragma once
#include <initializer_list>
#include <string>

#include "instance/problem_spec.hpp"
#include "tensor/random.hpp"

namespace attnjit::instance {

/// A backward of every gradient, with grouped heads and lengths that are no multiple of a tile.
inline ProblemSpec small_backward() {
  ProblemSpec spec;
  spec.batch = 2;
  spec.heads_q = 4;
  spec.heads_kv = 2;
  spec.seqlen_q = 70;
  spec.seqlen_kv = 90;
  spec.head_dim = 16;
  spec.head_dim_v = 24;
  spec.bias = "1hqk";
  spec.backward = spec.want_dlse = spec.want_dbias = true;
  return spec;
}

template <typename T>
T pick(const tensor::Random& random, std::uint64_t& draw, std::initializer_list<T> choices) {
  const auto count = static_cast<std::int64_t>(choices.size());
  return choices.begin()[random.below(draw++, count)];
}

/// A small problem with any combination of features, drawn from `seed`.
inline ProblemSpec random_spec(std::uint64_t seed) {
  const tensor::Random random = tensor::Random(1234).stream(seed);
  std::uint64_t draw = 0;
  const auto any = [&](auto... choices) { return pick(random, draw, {choices...}); };
  const auto text = [&](std::initializer_list<const char*> choices) {
    return std::string(pick(random, draw, choices));
  };
  ProblemSpec spec;
  spec.seed = seed;
  spec.dtype = any(DType::kFloat16, DType::kBFloat16);
  spec.batch = any(1, 2, 6);
  spec.heads_kv = any(1, 2, 3);
  spec.heads_q = spec.heads_kv * any(1, 2, 3);
  spec.seqlen_q = any(1, 7, 64, 65, 90);
  spec.seqlen_kv = any(1, 5, 63, 64, 67, 130);
  spec.head_dim = any(1, 8, 33);
  spec.head_dim_v = any(0, 3, 40);
  spec.mask = text({"", "", "bhqk", "b11k", "1hqk", "bgqk", "11q1", "b111", "1h1k", "bgqk"});
  spec.bias = text({"", "", "bhqk", "b11k", "1hqk", "bgqk", "11q1", "bh1k", "1111", "bg1k"});
  spec.mask_kind =
      static_cast<tensor::MaskKind>(random.below(draw++, tensor::kMaskKindNames.size()));
  spec.bias_kind =
      static_cast<tensor::BiasKind>(random.below(draw++, tensor::kBiasKindNames.size()));
  spec.bias_dtype = any(spec.dtype, DType::kFloat32);
  spec.diagonal = any(Diagonal::kTopLeft, Diagonal::kBottomRight);
  spec.causal = any(false, true);
  spec.window = {any(-1, -1, 0, 9), any(-1, -1, 0, 9)};
  if (any(0, 1) == 1) spec.scale = any(0.0f, -0.3f, 1.0f);
  spec.use_seqlens_q = any(false, false, true);
  spec.use_seqlens_kv = any(false, false, true);
  spec.memory.layout = any(Layout::kBhsd, Layout::kBshd);
  spec.memory.base_offset = any(0, 1);
  spec.memory.row_padding = any(0, 3);
  spec.memory.v_differs = any(false, true);
  spec.memory.expand_broadcast = any(false, true);
  spec.poison_dropped_keys = any(false, true);
  for (std::string* pattern : {&spec.mask, &spec.bias}) {
    const std::string planes = text({"", "s/2", "s/3", "p/2x1", "p/3x1"});
    if (spec.batch != 6 || pattern->empty() || planes.empty()) continue;
    *pattern = planes[0] + pattern->substr(1) + planes.substr(1);
  }
  spec.use_sink = any(false, false, false, true);
  if (spec.use_sink) spec.sink_dtype = any(spec.dtype, DType::kFloat32);
  spec.diagonal_offset = any(0, 0, 0, 7, -40);
  spec.row_offset = any(0, 0, 40);
  spec.key_offset = any(0, 0, -9);
  spec.alibi = text({"", "", "", "h", "bh"});
  if (!spec.alibi.empty() && spec.diagonal == Diagonal::kUnspecified) {
    spec.diagonal = any(Diagonal::kTopLeft, Diagonal::kBottomRight);
  }
  if (any(0, 1) == 1) spec.slopes = {0.0f, -0.25f, 0.7f, 3.0f};
  if (any(0, 0, 0, 1) == 1) spec.softcap = any(0.3f, 2.0f, 30.0f);
  return spec;
}

}  // namespace attnjit::instance
