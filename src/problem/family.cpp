#include "problem/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

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

std::int32_t bucket_of(std::span<const std::int32_t> buckets, std::int64_t number) {
  const auto found = std::ranges::lower_bound(buckets, number);
  return found == buckets.end() ? buckets.back() : *found;
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
  f.mask_per_query_head =
      varies_over_keys(problem.mask.extent) && problem.mask.num_heads > problem.num_heads_kv;
  f.bias = problem.bias.extent;
  if (problem.bias.extent != Extent::kAbsent) f.bias_dtype = problem.bias.dtype;
  f.bias_vectorized = problem.bias.vectorized;
  f.bounded_left = problem.bounded_left;
  f.bounded_right = problem.bounded_right;
  f.seqlens = problem.has_seqlens_q || problem.has_seqlens_kv;
  return f;
}

std::int32_t length_bucket(std::int32_t length) { return bucket_of(kLengthBuckets, length); }
std::int32_t plane_bucket(std::int64_t planes) { return bucket_of(kPlaneBuckets, planes); }

PlanKey plan_key(const Problem& problem) {
  return {family(problem),
          length_bucket(problem.seqlen_q),
          length_bucket(problem.seqlen_kv),
          plane_bucket(std::int64_t{problem.batch} * problem.num_heads_q),
          problem.mask.num_heads > 1,
          problem.bias.num_heads > 1};
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

std::string describe_buckets(std::int32_t q, std::int32_t kv, std::int32_t planes) {
  const auto range = [](const char* what, std::int32_t bucket, auto buckets) {
    const bool last = bucket == buckets.back();
    return fmt::format("{} {} {}", what, last ? ">" : "<=", last ? buckets.end()[-2] : bucket);
  };
  return fmt::format("{}, {}, {}", range("lq", q, kLengthBuckets), range("lk", kv, kLengthBuckets),
                     range("planes", planes, kPlaneBuckets));
}

std::string describe(const PlanKey& key) {
  return fmt::format("[{}], {}{}{}", describe(key.family),
                     describe_buckets(key.bucket_q, key.bucket_kv, key.bucket_planes),
                     key.mask_per_head ? ", mask per head" : "",
                     key.bias_per_head ? ", bias per head" : "");
}

}  // namespace attnjit::problem
