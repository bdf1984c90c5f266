#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "problem/problem.hpp"

namespace attnjit::problem {

/// What of a problem a kernel is specialised for. Lengths, batch, head counts, strides, window
/// widths and the scale's value are run-time arguments and not here.
struct Family {
  DType dtype = DType::kBFloat16;
  std::int32_t head_dim = 0, head_dim_v = 0, gqa_ratio = 1;
  bool aligned = false;
  bool positive_scale = true;  ///< and small enough to be folded into the exponent
  Extent mask = Extent::kAbsent;
  bool mask_vectorized = false;
  bool mask_per_query_head = false;  ///< a mask over keys that differs between heads of a kv head
  Extent bias = Extent::kAbsent;
  DType bias_dtype = DType::kBFloat16;
  bool bias_vectorized = false;
  bool bounded_left = false, bounded_right = false;
  bool seqlens = false;

  auto operator<=>(const Family&) const = default;
};

Family family(const Problem& problem);

/// The classes of lengths, and of planes (batch * num_heads_q), that a configuration is chosen for.
/// A number belongs to the smallest class that holds it; the last one holds all that is beyond.
inline constexpr std::array<std::int32_t, 12> kLengthBuckets = {
    1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
inline constexpr std::array<std::int32_t, 6> kPlaneBuckets = {1, 4, 16, 64, 256, 1024};

std::int32_t length_bucket(std::int32_t length);
std::int32_t plane_bucket(std::int64_t planes);

/// What a plan is looked up by: problems with equal keys run the same kernels.
struct PlanKey {
  Family family;
  std::int32_t bucket_q = 1, bucket_kv = 1;
  /// With bucket_q the number of tiles, which decides what tile suits best. Configuration 0 does
  /// not depend on it.
  std::int32_t bucket_planes = 1;
  /// The mask or bias differs between heads: more of it is read and, of a mask, packed. Like
  /// bucket_planes for measured choices only.
  bool mask_per_head = false, bias_per_head = false;

  auto operator<=>(const PlanKey&) const = default;
};

PlanKey plan_key(const Problem& problem);

/// One line, e.g. "bf16 d128 gqa4 right mask=1k".
std::string describe(const Family& family);

/// "lq <= 1024, lk <= 1024, planes <= 64".
std::string describe_buckets(std::int32_t q, std::int32_t kv, std::int32_t planes);

/// The family and "lq <= 1024, lk <= 1024, planes <= 64".
std::string describe(const PlanKey& key);

}  // namespace attnjit::problem
