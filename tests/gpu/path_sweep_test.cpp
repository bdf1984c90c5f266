// Random problems on a path that calls would not take: on Hopper the portable one for many queries,
// and wgmma for backwards.
#include <algorithm>
#include <atomic>

#include "random_problem.hpp"
#include "runtime/call/dispatcher.hpp"
#include "sweep.hpp"

namespace attnjit::path_sweep_test {
namespace {

using codegen::Path;

constexpr double kBudget = 5e8;  // multiply-adds of the reference: all planes of most problems

// Runs what `path` serves of 300 problems by run(dispatcher, driver, problem).
template <class SpecOf, class Run>
void sweep(Path path, std::uint64_t first, SpecOf spec_of, Run run) {
  ATTNJIT_NEED_GPU(gpu);  // its context outlives what the dispatcher loads into it
  if (path == Path::kWgmma && !codegen::find_arch(cuda::current_device(*gpu.driver).arch()).wgmma) {
    ATTNJIT_SKIP("this machine's GPU has no wgmma");
  }
  runtime::Dispatcher dispatcher(base::process_environment(), {}, nullptr, {}, path);
  std::atomic<int> served = 0;
  gpu_test::sweep(first, 300, gpu_test::all_cores(), spec_of,
                  [&](gpu_test::Gpu& on, instance::HostProblem& problem) -> gpu_test::Judged {
                    try {
                      const gpu_test::Judged judged = run(dispatcher, *on.driver, problem);
                      ++served;
                      return judged;
                    } catch (const Error& error) {
                      if (error.kind() != ErrorKind::kUnsupported) throw;
                      return {};
                    }
                  });
  MESSAGE(served.load() << " of 300 are served by path " << std::string(base::word(path)));
  CHECK(served >= (path == Path::kMma ? 300 : 10));
}

instance::ProblemSpec with_many_queries(instance::ProblemSpec spec, std::uint64_t index) {
  spec.seqlen_q =
      std::max<std::int64_t>(spec.seqlen_q, 65 + static_cast<std::int64_t>(index % 200));
  return spec;
}

gpu_test::Judged run_forward(runtime::Dispatcher& dispatcher, const cuda::Driver& driver,
                             instance::HostProblem& problem) {
  const auto verdict = gpu_test::run(dispatcher, driver, problem);
  return {verdict.text, verdict.out.worst_ratio};
}

gpu_test::Judged run_backward(runtime::Dispatcher& dispatcher, const cuda::Driver& driver,
                              instance::HostProblem& problem) {
  const auto planes = check::affordable_planes(problem.spec(), kBudget);
  return gpu_test::judged(gpu_test::run_backward(dispatcher, driver, problem, planes));
}

TEST_CASE("sweep on path mma: 300 random problems of 65 queries and more") {
  sweep(
      Path::kMma, 200000,
      [](std::uint64_t index) { return with_many_queries(test::random_problem(index), index); },
      run_forward);
}

TEST_CASE("backward sweep on path mma: 300 random problems") {
  sweep(Path::kMma, 200000, test::random_backward_problem, run_backward);
}

TEST_CASE("backward sweep on path wgmma: what it serves of 300 random problems") {
  sweep(Path::kWgmma, 300000, test::random_backward_problem, run_backward);
}

}  // namespace
}  // namespace attnjit::path_sweep_test
