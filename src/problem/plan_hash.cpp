#include "problem/plan_hash.hpp"

namespace attnjit::problem {
namespace {

// Multiplying by an odd number spreads a value over the higher bits; the last step brings them
// down, for tables look at the lowest ones.
template <class... Values>
std::uint64_t mix(Values... values) {
  std::uint64_t hash = 0;
  ((hash = (hash ^ static_cast<std::uint64_t>(values)) * 0x9e3779b97f4a7c15u), ...);
  return hash ^ (hash >> 32);
}

// A member that is missing from these lists does not compile.
template <class... Values>
std::uint64_t mix_family(const Family& family, Values... values) {
  const auto& [dtype, head_dim, head_dim_v, gqa_ratio, aligned, positive_scale, mask,
               mask_vectorized, mask_per_query_head, bias, bias_dtype, bias_vectorized,
               bounded_left, bounded_right, seqlens] = family;
  return mix(dtype, head_dim, head_dim_v, gqa_ratio, aligned, positive_scale, mask, mask_vectorized,
             mask_per_query_head, bias, bias_dtype, bias_vectorized, bounded_left, bounded_right,
             seqlens, values...);
}

}  // namespace

std::uint64_t hash(const PlanKey& key) {
  const auto& [family, bucket_q, bucket_kv, bucket_planes, mask_per_head, bias_per_head] = key;
  return mix_family(family, bucket_q, bucket_kv, bucket_planes, mask_per_head, bias_per_head);
}

std::uint64_t hash(const BackwardPlanKey& key) {
  const auto& [family, bucket_q, bucket_kv, bucket_planes] = key;
  const auto& [scores, dbias, dbias_dtype, dbias_vectorized, dbias_reduces_planes, dbias_scalar,
               deterministic] = family;
  return mix_family(scores, dbias, dbias_dtype, dbias_vectorized, dbias_reduces_planes,
                    dbias_scalar, deterministic, bucket_q, bucket_kv, bucket_planes);
}

}  // namespace attnjit::problem
