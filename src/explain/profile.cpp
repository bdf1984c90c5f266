#include "explain/profile.hpp"

#include <algorithm>
#include <cmath>

namespace attnjit::explain {
namespace {

using problem::Extent;
using problem::Problem;

// Sets what the scores of both passes say.
void set_scores(Profile& profile, const Problem& p, const Counts& counts) {
  profile.head_dim = std::max(p.head_dim, p.head_dim_v);
  profile.mask = p.mask.extent != Extent::kAbsent;
  profile.mask_per_pair = p.mask.extent == Extent::kPerPair;
  profile.mask_prepared = p.mask_prepared;
  profile.bias = p.bias.extent != Extent::kAbsent;
  profile.bias_per_pair = p.bias.extent == Extent::kPerPair;
  const bool wide_mask = !profile.mask_per_pair || p.mask.vectorized || p.mask_prepared;
  profile.wide = p.aligned && wide_mask && (!profile.bias_per_pair || p.bias.vectorized);
  profile.band = p.bounded_left || p.bounded_right;
  profile.packed = p.packed;
  profile.paged = p.paged();
  profile.listed_blocks = p.blocks.exist();
  profile.grouped_heads = p.gqa_ratio() > 1;
  profile.softcap = p.softcap != 0;
  profile.alibi = p.alibi.exists;
  profile.walked_pairs = counts.pairs.walked;
  profile.tiles = counts.pairs.tiles;
  profile.tensor_flop = counts.tensor_flop;
  profile.exponentials = counts.exponentials;
  profile.reduced_bytes = counts.reduced_bytes;
  profile.memory_bytes = counts.memory_bytes();
  profile.idle = counts.idle;
  profile.launches = static_cast<int>(counts.kernels.size());
}

// Properties that calls share or not.
constexpr bool Profile::*kTraits[] = {
    &Profile::mask,          &Profile::mask_per_pair, &Profile::mask_prepared, &Profile::bias,
    &Profile::bias_per_pair, &Profile::wide,          &Profile::band,          &Profile::packed,
    &Profile::paged,         &Profile::listed_blocks, &Profile::grouped_heads, &Profile::softcap,
    &Profile::alibi,         &Profile::deterministic};

double log_ratio(double a, double b) {
  return std::abs(std::log2(std::max(a, 1.0)) - std::log2(std::max(b, 1.0)));
}

}  // namespace

Profile profile(const launch::ForwardPlanSpec& spec, const Problem& p, const Counts& counts) {
  Profile profile{.path = base::word(spec.tunables.path),
                  .dbias = base::word(codegen::DbiasMethod::kNone),
                  .block_q = spec.facts.block_q,
                  .block_kv = spec.facts.block_kv};
  profile.slots = spec.block_slots;
  set_scores(profile, p, counts);
  return profile;
}

Profile profile(const launch::BackwardPlanSpec& spec, const problem::BackwardProblem& problem,
                const Counts& counts) {
  Profile profile{.backward = true,
                  .path = base::word(spec.tunables.dkv.path),
                  .dbias = base::word(spec.tunables.dbias_method),
                  .block_q = spec.dkv.block_q,
                  .block_kv = spec.dkv.block_kv};
  profile.slots = spec.block_slots;
  profile.deterministic = problem.deterministic;
  set_scores(profile, problem.forward, counts);
  return profile;
}

double distance(const Profile& a, const Profile& b) {
  constexpr double kOtherKernels = 50, kTile = 3, kSize = 0.3;
  double sum = a.backward == b.backward && a.path == b.path ? 0 : kOtherKernels;
  sum += log_ratio(a.head_dim, b.head_dim);
  sum += kTile * (log_ratio(a.block_q, b.block_q) + log_ratio(a.block_kv, b.block_kv));
  sum += kSize * log_ratio(a.walked_pairs, b.walked_pairs);
  sum += kSize * log_ratio(a.tiles / a.slots + 1, b.tiles / b.slots + 1);
  if (a.dbias != b.dbias) sum += 1;
  for (const auto trait : kTraits) {
    if (a.*trait != b.*trait) sum += 1;
  }
  if ((a.reduced_bytes > 0) != (b.reduced_bytes > 0)) sum += 1;
  return sum;
}

bool same_work(const Profile& a, const Profile& b) {
  constexpr double kRounding = 1e-3;
  const auto equal = [](double x, double y) {
    return std::abs(x - y) <= kRounding * std::max(x, y);
  };
  return distance(a, b) < kRounding && equal(a.memory_bytes, b.memory_bytes) &&
         equal(a.tensor_flop, b.tensor_flop) && a.launches == b.launches;
}

bool same_change(const Profile& before, const Profile& after, const Profile& from,
                 const Profile& to) {
  bool changes = before.dbias != after.dbias;
  const bool same_dbias = from.dbias == to.dbias;
  if (changes ? from.dbias != before.dbias || to.dbias != after.dbias : !same_dbias) return false;
  for (const auto trait : kTraits) {
    const bool changed = before.*trait != after.*trait;
    changes |= changed;
    if (changed ? from.*trait != before.*trait || to.*trait != after.*trait
                : from.*trait != to.*trait) {
      return false;
    }
  }
  return changes;
}

}  // namespace attnjit::explain
