#include "runtime/explain/explainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "attnjit/error.hpp"
#include "explain/changes.hpp"
#include "runtime/call/config_choice.hpp"
#include "runtime/load/plan_loader.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::runtime {
namespace {

using explain::Explanation;
using explain::Gain;

// A problem, its kernels and what these count.
template <class Pass>
struct Counted {
  typename Pass::Problem problem;
  PlanChoice<Pass> choice;
  explain::Counts counts;
  explain::Profile profile;
};

template <class Pass>
Counted<Pass> count(Engine& engine, const codegen::Arch& arch,
                    const std::optional<tuner::DeviceClass>& device,
                    const typename Pass::Args& args, const explain::Values& values) {
  Counted<Pass> counted{.problem = problem::make_problem(args)};
  counted.choice = choose_plan<Pass>(engine, counted.problem, problem::plan_key(counted.problem),
                                     arch, device, Compiling::kForbidden);
  counted.counts = explain::count(counted.choice.spec, counted.problem, values);
  counted.profile = explain::profile(counted.choice.spec, counted.problem, counted.counts);
  return counted;
}

explain::NearRow near_row(const explain::Measurement& row, const explain::Profile& call) {
  return {row.name, row.date, row.ms, row.profile.walked_pairs / std::max(call.walked_pairs, 1.0)};
}

double kernel_ms(const explain::Profile& profile, const explain::Rates& rates) {
  return 1e3 * explain::combined(explain::busy(profile, rates));
}

double launch_ms(const explain::Profile& profile, const explain::Rates& rates) {
  return 1e3 *
         explain::busy(profile, rates)[static_cast<std::size_t>(explain::Resource::kLaunches)];
}

// Milliseconds of `once_bytes`, and of the launch that moves them.
double once_ms(double once_bytes, const explain::Rates& rates) {
  if (once_bytes == 0) return 0;
  explain::Profile alone;
  alone.memory_bytes = once_bytes;
  alone.launches = 1;
  return kernel_ms(alone, rates) + launch_ms(alone, rates);
}

// The least difference that is told, milliseconds: a hundredth of the call.
double worth(double expected_ms) { return 0.01 * expected_ms; }

// The reason for configuration 0 that does not take wgmma on an architecture that has it.
template <class Pass>
std::string why(const PlanChoice<Pass>& choice, const typename Pass::Key& key,
                const codegen::Arch& arch) {
  const bool zero = choice.source == ConfigSource::kConfigZero && !choice.slow;
  if (!zero || !arch.wgmma || main_path(choice.config) != codegen::Path::kMma) return choice.why;
  return fmt::format("{}; path mma: {}", choice.why, tuner::why_mma(key, arch));
}

}  // namespace

Explainer::Explainer(Engine& engine, const std::optional<cuda::DeviceInfo>& device)
    : engine_(engine),
      arch_(device ? arch_of(*device) : codegen::find_arch(explain::kMeasuredArch)),
      device_(device ? std::optional(device_class(*device)) : std::nullopt),
      device_name_(device ? device->name : std::string(explain::kMeasuredDevice)),
      rates_(explain::find_rates(device_name_)),
      rows_(explain::built_in_measurements()) {}

Explanation Explainer::explain(const ForwardArgs& args, const explain::Values& values) {
  return explain_pass<launch::ForwardPass>(args, values);
}
Explanation Explainer::explain(const BackwardArgs& args, const explain::Values& values) {
  return explain_pass<launch::BackwardPass>(args, values);
}

template <class Pass>
Explanation Explainer::explain_pass(const typename Pass::Args& args,
                                    const explain::Values& values) {
  const Counted<Pass> counted = count<Pass>(engine_, arch_, device_, args, values);
  Explanation e{.problem = problem::describe(counted.problem), .device = device_name_};
  e.name = e.problem;
  e.tile = codegen::describe_tile(counted.choice.config);
  e.from = name(counted.choice.source);
  e.why = why<Pass>(counted.choice, problem::plan_key(counted.problem), arch_);
  e.counts = counted.counts;
  e.profile = counted.profile;
  e.assumed = explain::assumptions(explain::forward_of(counted.problem), values);
  if (rates_ == nullptr) return e;

  e.busy = explain::busy(e.profile, *rates_);
  const explain::Expected expected = explain::expect(e.profile, *rates_, rows_);
  e.expected_ms = expected.ms;
  for (const explain::Measurement* row : expected.nearest)
    e.nearest.push_back(near_row(*row, e.profile));
  if (expected.own != nullptr) e.own = near_row(*expected.own, e.profile);
  e.error = expected.error;
  for (const auto& change : explain::without_features(args)) {
    const auto g = gain<Pass>(e, change, values);
    const double least = worth(e.expected_ms);
    if (!g) continue;
    if (g->most() >= least || g->least() <= -least) {
      e.costs.push_back(*g);
    } else {
      e.cheap.push_back(g->what);
    }
  }
  for (const auto& change : explain::actions(args, counted.problem)) {
    const auto g = gain<Pass>(e, change, values);
    if (g && g->most() >= worth(e.expected_ms)) e.actions.push_back(*g);
  }
  std::ranges::sort(e.actions, std::greater(), &Gain::most);
  return e;
}

template <class Pass>
std::optional<Gain> Explainer::gain(const Explanation& before,
                                    const explain::Change<typename Pass::Args>& change,
                                    const explain::Values& values) {
  try {
    const Counted<Pass> after = count<Pass>(engine_, arch_, device_, change.args, values);
    // Other kernels have an efficiency of their own.
    const bool same_path = after.profile.path == before.profile.path;
    const explain::Profile& like = same_path ? before.profile : after.profile;
    const double efficiency = explain::expect(like, *rates_, rows_).efficiency;
    const double launches = launch_ms(after.profile, *rates_);
    const double kernels = kernel_ms(after.profile, *rates_) / efficiency;
    Gain gain{.what = change.what,
              .counted = before.expected_ms - launches - kernels,
              .once_ms = once_ms(change.once_bytes, *rates_)};
    if (const auto pair = explain::find_pair(before.profile, after.profile, rows_)) {
      gain.by_rows = before.expected_ms - launches - kernels / pair->efficiency;
      gain.before = near_row(*pair->before, before.profile);
      gain.after = near_row(*pair->after, after.profile);
    }
    return gain;
  } catch (const Error&) {
    return std::nullopt;  // a call without it is none: an operand that nothing else reads
  }
}

}  // namespace attnjit::runtime
