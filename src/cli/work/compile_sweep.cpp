#include "cli/work/compile_sweep.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/parallel.hpp"

namespace attnjit::cli {
namespace {

void fail(SweptKernel& kernel, const std::exception& error) {
  kernel.state = SweptKernel::State::kFailed;
  const Failure failure = failure_of(error);
  kernel.error = failure.message;
  kernel.code = failure.code;
}

SweptKernel::State state_of(cache::Fetched::Origin origin) {
  using enum cache::Fetched::Origin;
  if (origin == kBuild) return SweptKernel::State::kCompiled;
  return origin == kBundle ? SweptKernel::State::kBundled : SweptKernel::State::kCached;
}

void compile(SweptKernel& kernel, runtime::Engine& engine) {
  try {
    const auto begin = std::chrono::steady_clock::now();
    const cache::Fetched fetched =
        engine.fetch(kernel.step.spec.source, *kernel.arch, kernel.problem);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - begin;
    kernel.compile_ms = elapsed.count();
    kernel.facts = runtime::facts(*fetched.entry);
    kernel.cubin_bytes = fetched.entry->cubin.size();
    kernel.why_not_kept = fetched.why_not_kept;
    kernel.state = state_of(fetched.origin);
  } catch (const std::exception& error) {
    fail(kernel, error);
  }
}

}  // namespace

std::size_t Sweep::count(SweptKernel::State state) const {
  return static_cast<std::size_t>(std::ranges::count(kernels, state, &SweptKernel::state));
}

Sweep list_kernels(const std::vector<Case>& cases, const std::vector<const codegen::Arch*>& archs,
                   const MakePlans& make_plans, const std::string& step) {
  Sweep sweep;
  std::map<cache::KernelKey, std::size_t> known;
  const auto add = [&](const Planned& planned, const PlannedStep& chosen) {
    const auto [place, first] = known.emplace(chosen.key, sweep.kernels.size());
    if (first) {
      SweptKernel kernel;
      kernel.step = chosen;
      kernel.arch = planned.arch;
      kernel.problem = {planned.problem, planned.manifest_line};
      sweep.kernels.push_back(std::move(kernel));
    }
    sweep.rows.push_back({planned.name, place->second, first});
  };
  for (const Case& job : cases) {
    for (const codegen::Arch* arch : archs) {
      try {
        for (const Planned& planned : make_plans(job, *arch)) {
          if (!step.empty()) {
            add(planned, pick_step(planned, step));
            continue;
          }
          for (const PlannedStep& each : planned.steps) add(planned, each);
        }
      } catch (const std::exception& error) {
        sweep.rows.push_back({job.name, sweep.kernels.size(), true});
        SweptKernel& unplanned = sweep.kernels.emplace_back();
        unplanned.arch = arch;
        fail(unplanned, error);
      }
    }
  }
  return sweep;
}

void keep_results(const Sweep& before, Sweep& sweep) {
  std::map<cache::KernelKey, const SweptKernel*> known;
  for (const SweptKernel& kernel : before.kernels) known.emplace(kernel.step.key, &kernel);
  for (SweptKernel& kernel : sweep.kernels) {
    if (kernel.state != SweptKernel::State::kListed) continue;
    const auto found = known.find(kernel.step.key);
    if (found != known.end()) kernel = *found->second;
  }
}

std::vector<std::size_t> compile_order(const Sweep& sweep) {
  std::vector<std::size_t> order(sweep.kernels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return sweep.kernels[i].step.spec.shared_bytes; });
  return order;
}

void compile_all(Sweep& sweep, Session& session) {
  runtime::Engine& engine = session.engine();
  std::mutex mutex;  // of the progress line
  std::size_t done = 0;
  const std::size_t total = sweep.kernels.size();
  const std::vector<std::size_t> order = compile_order(sweep);
  base::parallel_for(total, session.environment().jobs, [&](std::size_t i) {
    SweptKernel& kernel = sweep.kernels[order[i]];
    if (kernel.state == SweptKernel::State::kListed) compile(kernel, engine);
    const std::scoped_lock lock(mutex);
    session.console().progress(++done, total, kernel.step.spec.source.title);
  });
  session.console().progress(0, 0, "");
}

void look_up_all(Sweep& sweep, Session& session) {
  cache::KernelCache& cache = session.engine().cache();
  for (SweptKernel& kernel : sweep.kernels) {
    if (kernel.state != SweptKernel::State::kListed) continue;
    if (const auto found = cache.look_up(kernel.step.key, std::string(kernel.arch->name))) {
      kernel.facts = runtime::facts(*found->entry);
      kernel.cubin_bytes = found->entry->cubin.size();
      kernel.state = state_of(found->origin);
      continue;
    }
    kernel.state = SweptKernel::State::kMissing;
    kernel.error =
        fmt::format("[{}] is in no bundle and not in the cache; attnjit warmup puts it there",
                    kernel.step.spec.source.title);
    kernel.code = ExitCode::kVerification;
  }
}

}  // namespace attnjit::cli
