// Random problems over everything that docs/semantics.md allows, each judged against fp64.
#include "random_problem.hpp"
#include "sweep.hpp"

namespace attnjit {
namespace {

void sweep(std::uint64_t first, std::uint64_t count, unsigned jobs) {
  gpu_test::sweep(first, count, jobs, test::random_problem,
                  [](gpu_test::Gpu& gpu, instance::HostProblem& problem) {
                    const auto verdict = gpu_test::run(gpu.context, *gpu.driver, problem);
                    return gpu_test::Judged{verdict.text, verdict.out.worst_ratio};
                  });
}

TEST_CASE("sweep: 2400 random problems") { sweep(0, 2400, gpu_test::all_cores()); }

// Small enough for compute-sanitizer:
//   compute-sanitizer --tool memcheck test_gpu -tc="sanitizer sample"
TEST_CASE("sanitizer sample") { sweep(100000, 24, 2); }

}  // namespace
}  // namespace attnjit
