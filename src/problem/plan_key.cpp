#include "problem/plan_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace attnjit::problem {
namespace {

std::int32_t bucket_of(std::span<const std::int32_t> buckets, std::int64_t number) {
  const auto found = std::ranges::lower_bound(buckets, number);
  return found == buckets.end() ? buckets.back() : *found;
}

// A sum of the values, each times an odd number of its own, which spreads it over the higher bits;
// products need not wait for each other, as they would in a chain. The last step brings them down,
// for tables look at the lowest ones.
template <class Key>
std::uint64_t mix(const Key& key) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  std::uint64_t sum = 0, factor = kOdd;  // a constant in each place, once this is inlined
  base::for_each_leaf(key, [&](const char*, const auto& value) {
    sum += static_cast<std::uint64_t>(value) * factor;
    factor *= kOdd;
  });
  return sum ^ (sum >> 32);
}

struct Lengths {
  std::int32_t q, kv;
};
Lengths length_buckets(const Problem& problem, const Family& f) {
  const std::int64_t planes = std::int64_t{problem.batch} * problem.num_heads_q;
  const bool exact = has_exact_lengths(f, problem.seqlen_q, problem.seqlen_kv, planes);
  const auto bucket = exact ? short_length_bucket : length_bucket;
  return {bucket(problem.seqlen_q), bucket(problem.seqlen_kv)};
}

std::string describe_buckets(std::int32_t q, std::int32_t kv, std::int32_t planes) {
  const auto range = [](const char* what, std::int32_t bucket, auto buckets) {
    const bool last = bucket == buckets.back();
    return fmt::format("{} {} {}", what, last ? ">" : "<=", last ? buckets.end()[-2] : bucket);
  };
  return fmt::format("{}, {}, {}", range("lq", q, kLengthBuckets), range("lk", kv, kLengthBuckets),
                     range("planes", planes, kPlaneBuckets));
}

}  // namespace

std::int32_t length_bucket(std::int32_t length) { return bucket_of(kLengthBuckets, length); }
std::int32_t short_length_bucket(std::int32_t length) {
  return (length + kExactStep - 1) / kExactStep * kExactStep;
}
bool has_exact_lengths(const Family& f, std::int32_t q, std::int32_t kv, std::int64_t planes) {
  const auto [least, most] = std::minmax(q, kv);
  const std::int32_t columns = std::max(f.head_dim, f.head_dim_v);
  return least > kMostInexact && most <= most_exact(columns) && columns <= 64 && f.gqa_ratio == 1 &&
         !f.bounded_left && !f.bounded_right && !f.packed && f.page_size == 0 &&
         planes >= kFewestShortPlanes;
}
bool has_strip_lengths(const BackwardFamily& f, std::int32_t q, std::int32_t kv) {
  const auto [least, most] = std::minmax(q, kv);
  return f.dbias == Extent::kPerPair && f.dbias_reduces_planes && !f.dbias_reduces_few &&
         f.scores.bias == Extent::kPerPair && least > kMostExact && most <= kMostStrip &&
         f.scores.gqa_ratio == 1 && !f.scores.packed && !f.scores.bounded_left &&
         !f.scores.bounded_right;
}
bool has_strip_lengths(const Problem& p, const Family& f) {
  return f.bias == Extent::kPerPair && p.batch / kFewestSharers >= p.bias.num_batches &&
         p.seqlen_kv > kMostExact && p.seqlen_kv <= kMostStripKeys && f.gqa_ratio == 1 &&
         !f.packed && !f.bounded_left && !f.bounded_right;
}
std::int32_t plane_bucket(std::int64_t planes) { return bucket_of(kPlaneBuckets, planes); }

PlanKey plan_key(const Problem& problem) {
  const Family f = family(problem);
  Lengths lengths = length_buckets(problem, f);
  if (has_strip_lengths(problem, f)) {
    lengths.kv = (problem.seqlen_kv + kStripKeysStep - 1) / kStripKeysStep * kStripKeysStep;
  }
  return {f,
          lengths.q,
          lengths.kv,
          plane_bucket(std::int64_t{problem.tensor_batch()} * problem.num_heads_q),
          problem.mask.num_heads > 1,
          problem.bias.num_heads > 1};
}

BackwardPlanKey plan_key(const BackwardProblem& problem) {
  const Problem& forward = problem.forward;
  const BackwardFamily f = family(problem);
  Lengths lengths = length_buckets(forward, f.scores);
  if (has_strip_lengths(f, forward.seqlen_q, forward.seqlen_kv)) {
    const auto bucket = [](std::int32_t length) {
      return (length + kStripStep - 1) / kStripStep * kStripStep;
    };
    lengths = {bucket(forward.seqlen_q), bucket(forward.seqlen_kv)};
  }
  return {f, lengths.q, lengths.kv,
          plane_bucket(std::int64_t{forward.tensor_batch()} * forward.num_heads_q)};
}

std::uint64_t hash(const PlanKey& key) { return mix(key); }
std::uint64_t hash(const BackwardPlanKey& key) { return mix(key); }
std::uint64_t hash(const MergeKey& key) { return mix(key); }
std::uint64_t hash(const MaskKey& key) { return mix(key); }

std::string describe(const PlanKey& key) {
  return fmt::format("[{}], {}{}{}", describe(key.family),
                     describe_buckets(key.bucket_q, key.bucket_kv, key.bucket_planes),
                     key.mask_per_head ? ", mask per head" : "",
                     key.bias_per_head ? ", bias per head" : "");
}

std::string describe(const BackwardPlanKey& key) {
  return fmt::format("backward [{}], {}", describe(key.family),
                     describe_buckets(key.bucket_q, key.bucket_kv, key.bucket_planes));
}

}  // namespace attnjit::problem
