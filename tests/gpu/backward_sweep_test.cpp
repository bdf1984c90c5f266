// Random backward problems over everything that docs/reference/semantics.md allows, each judged against fp64.
#include "random_problem.hpp"
#include "sweep.hpp"

namespace attnjit::backward_sweep_test {
namespace {

constexpr double kBudget = 5e8;  // multiply-adds of the reference: all planes of most problems

// Every fourth problem is deterministic.
instance::ProblemSpec backward_problem(std::uint64_t index) {
  instance::ProblemSpec spec = test::random_backward_problem(index);
  spec.deterministic = index % 4 == 3;
  return spec;
}

void sweep(std::uint64_t first, std::uint64_t count, unsigned jobs) {
  gpu_test::sweep(
      first, count, jobs, backward_problem, [](gpu_test::Gpu& gpu, instance::HostProblem& problem) {
        const auto planes = check::affordable_planes(problem.spec(), kBudget);
        return gpu_test::judged(gpu_test::run_backward(gpu.context, *gpu.driver, problem, planes));
      });
}

TEST_CASE_TEMPLATE("backward sweep: 250 of 2000 random problems", Part, EIGHT_PARTS) {
  sweep(250 * Part::value, 250, gpu_test::all_cores());
}

// Small enough for compute-sanitizer, which scripts/sanitize-gpu runs.
TEST_CASE("sanitizer sample: backward") { sweep(100000, 24, 2); }

}  // namespace
}  // namespace attnjit::backward_sweep_test
