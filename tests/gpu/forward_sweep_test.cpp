// Random problems over everything that docs/semantics.md allows, each judged against fp64.
#include <atomic>
#include <mutex>
#include <thread>

#include "base/parallel.hpp"
#include "gpu.hpp"
#include "random_problem.hpp"

namespace attnjit {
namespace {

// Runs problems [first, first + count) on `jobs` threads that share one attnjit context.
void sweep(std::uint64_t first, std::uint64_t count, unsigned jobs) {
  ATTNJIT_NEED_GPU(gpu);
  std::mutex mutex;
  std::string failures;
  std::size_t failed = 0;
  double worst = 0;
  base::parallel_for(count, jobs, [&](std::size_t i) {
    const reference::ProblemSpec spec = test::random_problem(first + i);
    std::string text;
    double ratio = 0;
    try {
      const cuda::PrimaryContext current(*gpu.driver);
      reference::HostProblem problem(spec, 1);
      const check::Verdict verdict = gpu_test::run(gpu.context, *gpu.driver, problem);
      text = verdict.text;
      ratio = verdict.out.worst_ratio;
    } catch (const Error& error) {
      text = error.what();
    }
    const std::lock_guard lock(mutex);
    worst = std::max(worst, ratio);
    if (text.empty()) return;
    if (++failed <= 20) {
      failures += "problem " + std::to_string(first + i) + ": " + reference::describe(spec) + "\n" +
                  text + "\n";
    }
  });
  MESSAGE(count << " problems, " << gpu.context.counters().plans << " plans, worst error ratio "
                << worst);
  INFO(failures);
  CHECK(failed == 0);
}

unsigned all_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

TEST_CASE("sweep: 2400 random problems") { sweep(0, 2400, all_cores()); }

// Small enough for compute-sanitizer:
//   compute-sanitizer --tool memcheck test_gpu -tc="sanitizer sample"
TEST_CASE("sanitizer sample") { sweep(100000, 24, 2); }

}  // namespace
}  // namespace attnjit
