#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "problem/backward_problem.hpp"
#include "problem/mask_problem.hpp"
#include "problem/merge_problem.hpp"

namespace attnjit::problem {

/// The classes of lengths, and of planes (batch * num_heads_q), that tunables are chosen for. A
/// number belongs to the smallest class that holds it; the last one holds all that is beyond.
inline constexpr std::array<std::int32_t, 12> kLengthBuckets = {
    1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
inline constexpr std::array<std::int32_t, 6> kPlaneBuckets = {1, 4, 16, 64, 256, 1024};

/// Where a kernel may hold many planes whole, one after another, both lengths being above
/// kMostInexact and up to most_exact(), they are rounded up to a multiple of kExactStep instead.
inline constexpr std::int32_t kMostInexact = 64, kMostExact = 208, kExactStep = 16;
inline constexpr std::int64_t kFewestShortPlanes = 65;
/// Of planes of so many columns: longer ones are faster in other kernels.
constexpr std::int32_t most_exact(std::int32_t columns) { return columns <= 32 ? kMostExact : 160; }

/// Where the kernels of a backward may keep strips of a bias that many planes share, both lengths
/// being above kMostExact and up to kMostStrip, they are rounded up to a multiple of kStripStep.
inline constexpr std::int32_t kMostStrip = 768, kStripStep = 128;

/// Where that of a forward may keep strips of all keys, whose number is above kMostExact and up to
/// kMostStripKeys, the keys are rounded up to a multiple of kStripKeysStep, which is no other
/// bucket. A plane of the bias has at least kFewestSharers batch elements.
inline constexpr std::int32_t kMostStripKeys = 384, kStripKeysStep = 96, kFewestSharers = 32;

std::int32_t length_bucket(std::int32_t length);
std::int32_t plane_bucket(std::int64_t planes);
/// The multiple of kExactStep that holds `length`.
std::int32_t short_length_bucket(std::int32_t length);
/// Whether a kernel that holds many planes whole may serve such lengths, so that their buckets are
/// those of short_length_bucket(). Buckets of lengths and planes have the answer of their problems.
bool has_exact_lengths(const Family& family, std::int32_t q, std::int32_t kv, std::int64_t planes);

/// Whether kernels that keep strips of a bias may serve such lengths, so that their buckets are
/// multiples of kStripStep.
bool has_strip_lengths(const BackwardFamily& family, std::int32_t q, std::int32_t kv);
/// The same of forwards, whose keys alone have buckets of their own, the multiples of
/// kStripKeysStep.
bool has_strip_lengths(const Problem& problem, const Family& family);
/// Whether `bucket` is one of these.
constexpr bool is_strip_bucket(std::int32_t bucket) {
  return bucket > kMostExact && bucket <= kMostStripKeys && bucket % kStripKeysStep == 0;
}

/// The key of a plan: problems with equal keys run the same kernels.
struct PlanKey {
  Family family;
  std::int32_t bucket_q = 1, bucket_kv = 1;
  /// With bucket_q the number of tiles, which decides what tile suits best. Configuration 0 asks
  /// only whether short planes are many.
  std::int32_t bucket_planes = 1;
  /// The mask or bias differs between heads: more of it is read and, of a mask, converted. Like
  /// bucket_planes for measured choices only.
  bool mask_per_head = false, bias_per_head = false;

  auto operator<=>(const PlanKey&) const = default;
};

constexpr auto fields(const PlanKey*) {
  using K = PlanKey;
  return base::fields_of<K>(
      base::Field{"family", &K::family}, base::Field{"bucket_q", &K::bucket_q},
      base::Field{"bucket_kv", &K::bucket_kv}, base::Field{"bucket_planes", &K::bucket_planes},
      base::Field{"mask_per_head", &K::mask_per_head},
      base::Field{"bias_per_head", &K::bias_per_head});
}

/// The same of a backward.
struct BackwardPlanKey {
  BackwardFamily family;
  std::int32_t bucket_q = 1, bucket_kv = 1, bucket_planes = 1;

  auto operator<=>(const BackwardPlanKey&) const = default;
};

constexpr auto fields(const BackwardPlanKey*) {
  using K = BackwardPlanKey;
  return base::fields_of<K>(
      base::Field{"family", &K::family}, base::Field{"bucket_q", &K::bucket_q},
      base::Field{"bucket_kv", &K::bucket_kv}, base::Field{"bucket_planes", &K::bucket_planes});
}

PlanKey plan_key(const Problem& problem);
BackwardPlanKey plan_key(const BackwardProblem& problem);

/// The part of a family that both passes have.
inline const Family& scores(const PlanKey& key) { return key.family; }
inline const Family& scores(const BackwardPlanKey& key) { return key.family.scores; }

/// A number for hash tables; equal keys have equal ones. It depends on this build and must not be
/// stored.
std::uint64_t hash(const PlanKey& key);
std::uint64_t hash(const BackwardPlanKey& key);
std::uint64_t hash(const MergeKey& key);
std::uint64_t hash(const MaskKey& key);

/// The family and "lq <= 1024, lk <= 1024, planes <= 64".
std::string describe(const PlanKey& key);
std::string describe(const BackwardPlanKey& key);

}  // namespace attnjit::problem
