#include "explain/rates.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace attnjit::explain {
namespace {

constexpr Rates kRates[] = {
    {"NVIDIA H200", 989e12, 1830, 4.2e12, 3.8e12, 128.0 * 132 * 1.75e9},
    {"NVIDIA H100 80GB HBM3", 989e12, 1830, 2.9e12, 3.8e12, 128.0 * 132 * 1.75e9},
};

// Shares of the rates that whole kernels reach: no measured row does better by much. Products of
// mma.sync reach 340 of 989 TFLOP/s (bench/results/2026-11-21-h200/forward.json).
constexpr double kTensorShare = 0.75, kMmaShare = 0.35, kMemoryShare = 0.85;

// Seconds of a call besides its kernels: its first one, and each of them.
constexpr double kCallSeconds = 3e-6, kLaunchSeconds = 2e-6;

// The least share of the device that a call is taken to keep busy: below, the latency of one tile
// after another hides behind nothing, and more of the device would not help.
constexpr double kLeastBusy = 0.05;

// Instructions of a lane for each score besides matrix products: its scale, exponential, sum and
// rounding, then those of each feature. Counted in kernels' inner loops, to a few.
double score_instructions(const Profile& p) {
  double count = p.backward ? 18 : 12;
  if (p.mask_per_pair) count += 5;
  if (p.bias_per_pair) count += p.wide ? 5 : 10;
  if (p.softcap) count += 12;
  if (p.dbias != base::word(codegen::DbiasMethod::kNone)) count += 10;
  return count;
}

}  // namespace

const Rates* find_rates(std::string_view name) {
  const auto* const found = std::ranges::find(kRates, name, &Rates::device);
  return found == std::end(kRates) ? nullptr : found;
}

const char* name(Resource resource) {
  static constexpr const char* kNames[kNumResources] = {"tensor cores", "arithmetic of scores",
                                                        "sums in L2", "memory", "launches"};
  return kNames[static_cast<std::size_t>(resource)];
}

Busy busy(const Profile& profile, const Rates& rates) {
  const double share = std::max(kLeastBusy, 1 - profile.idle);
  const bool shares_bias = profile.path == base::word(codegen::Path::kSharedBias);
  const bool wgmma =
      profile.path == base::word(codegen::Path::kWgmma) || (shares_bias && !profile.backward);
  return {profile.tensor_flop / ((wgmma ? kTensorShare : kMmaShare) * rates.tensor_flop) / share,
          profile.exponentials * score_instructions(profile) / rates.score_instructions / share,
          profile.reduced_bytes / rates.reduced_bytes / share,
          profile.memory_bytes / (kMemoryShare * rates.copied_bytes),
          kCallSeconds + profile.launches * kLaunchSeconds};
}

double combined(const Busy& busy) {
  double cubes = 0;
  for (const double seconds : std::span(busy).first(kNumResources - 1)) {
    cubes += seconds * seconds * seconds;
  }
  return std::cbrt(cubes);
}

Resource binding(const Busy& busy) {
  return static_cast<Resource>(std::ranges::max_element(busy) - busy.begin());
}

}  // namespace attnjit::explain
