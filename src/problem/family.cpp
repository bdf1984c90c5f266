#include "problem/family.hpp"

#include <fmt/format.h>

#include <cmath>

namespace attnjit::problem {
namespace {

const char* extent_name(Extent extent) {
  switch (extent) {
    case Extent::kPerQuery:
      return "q1";
    case Extent::kPerKey:
      return "1k";
    case Extent::kPerPair:
      return "qk";
    case Extent::kAbsent:
      break;
  }
  return "none";
}

}  // namespace

Family family(const Problem& problem) {
  Family f;
  f.dtype = problem.dtype;
  f.head_dim = problem.head_dim;
  f.head_dim_v = problem.head_dim_v;
  f.gqa_ratio = problem.gqa_ratio();
  f.aligned = problem.aligned;
  // Folded into the exponent it is multiplied by log2(e), which a scale near the largest fp32 does
  // not survive.
  f.positive_scale = problem.scale > 0.0f && std::isfinite(problem.scale * 1.4427f);
  f.mask = problem.mask.extent;
  f.mask_vectorized = problem.mask.vectorized;
  const bool over_keys =
      problem.mask.extent == Extent::kPerKey || problem.mask.extent == Extent::kPerPair;
  f.mask_per_query_head = over_keys && problem.mask.num_heads > problem.num_heads_kv;
  f.bias = problem.bias.extent;
  if (problem.bias.extent != Extent::kAbsent) f.bias_dtype = problem.bias.dtype;
  f.bias_vectorized = problem.bias.vectorized;
  f.bounded_left = problem.bounded_left;
  f.bounded_right = problem.bounded_right;
  f.seqlens = problem.has_seqlens_q || problem.has_seqlens_kv;
  return f;
}

std::int32_t length_bucket(std::int32_t length) {
  if (length <= 1) return 1;
  if (length <= 16) return 16;
  std::int32_t bucket = 64;
  while (bucket < length && bucket < 32768) bucket *= 2;
  return bucket;
}

PlanKey plan_key(const Problem& problem) {
  return {family(problem), length_bucket(problem.seqlen_q), length_bucket(problem.seqlen_kv)};
}

std::string describe(const Family& f) {
  std::string text = fmt::format("{} d{}", name(f.dtype), f.head_dim);
  if (f.head_dim_v != f.head_dim) text += fmt::format(" dv{}", f.head_dim_v);
  text += fmt::format(" gqa{}", f.gqa_ratio);
  if (f.bounded_left) text += " left";
  if (f.bounded_right) text += " right";
  if (f.seqlens) text += " seqlens";
  if (f.mask != Extent::kAbsent) {
    text += fmt::format(" mask={}{}", extent_name(f.mask), f.mask_vectorized ? "" : ",scalar");
  }
  if (f.bias != Extent::kAbsent) {
    text += fmt::format(" bias={},{}{}", extent_name(f.bias), name(f.bias_dtype),
                        f.bias_vectorized ? "" : ",scalar");
  }
  if (!f.aligned) text += " unaligned";
  if (!f.positive_scale) text += " scale<=0";
  return text;
}

}  // namespace attnjit::problem
