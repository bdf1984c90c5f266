#pragma once
#include <algorithm>
#include <mutex>
#include <string>

#include "base/parallel.hpp"
#include "gpu.hpp"

namespace attnjit::gpu_test {

/// Parts of a sweep, a case each: whoever has less time than all of them take runs some.
template <int kIndex>
struct Part {
  static constexpr int value = kIndex;
};
#define EIGHT_PARTS                                                                              \
  gpu_test::Part<0>, gpu_test::Part<1>, gpu_test::Part<2>, gpu_test::Part<3>, gpu_test::Part<4>, \
      gpu_test::Part<5>, gpu_test::Part<6>, gpu_test::Part<7>

/// The verdict on one problem.
struct Judged {
  std::string text;  ///< what is wrong, or nothing
  double worst_ratio = 0;
};

/// That of a backward: the worst of its gradients is that of the problem.
inline Judged judged(const check::BackwardVerdict& verdict) {
  return {verdict.text,
          std::max({verdict.dq.worst_ratio, verdict.dk.worst_ratio, verdict.dv.worst_ratio,
                    verdict.dbias.worst_ratio, verdict.dsink.worst_ratio})};
}

/// Runs problems [first, first + count) on `jobs` threads that share one attnjit context:
/// spec_of(index) is a problem, and judge(gpu, problem) runs it.
template <class SpecOf, class Judge>
void sweep(std::uint64_t first, std::uint64_t count, unsigned jobs, SpecOf spec_of, Judge judge) {
  ATTNJIT_NEED_GPU(gpu);
  std::mutex mutex;
  std::string failures;
  std::size_t failed = 0;
  double worst = 0;
  base::parallel_for(count, jobs, [&](std::size_t i) {
    const instance::ProblemSpec spec = spec_of(first + i);
    Judged judged;
    try {
      const cuda::PrimaryContext current(*gpu.driver);
      instance::HostProblem problem(spec, 1);
      judged = judge(gpu, problem);
    } catch (const Error& error) {
      judged.text = error.what();
    }
    const std::lock_guard lock(mutex);
    worst = std::max(worst, judged.worst_ratio);
    if (judged.text.empty()) return;
    if (++failed <= 20) {
      failures += "problem " + std::to_string(first + i) + ": " + instance::describe(spec) + "\n" +
                  judged.text + "\n";
    }
  });
  MESSAGE(count << " problems, " << gpu.context.counters().plans << " plans, worst error ratio "
                << worst);
  INFO(failures);
  CHECK(failed == 0);
}

}  // namespace attnjit::gpu_test
