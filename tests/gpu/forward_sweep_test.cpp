// Random problems over everything that docs/reference/semantics.md allows, each judged against fp64.
#include <algorithm>

#include "random_problem.hpp"
#include "sweep.hpp"

namespace attnjit::forward_sweep_test {
namespace {

template <class SpecOf>
void sweep(std::uint64_t first, std::uint64_t count, unsigned jobs, SpecOf spec_of) {
  gpu_test::sweep(first, count, jobs, spec_of,
                  [](gpu_test::Gpu& gpu, instance::HostProblem& problem) {
                    const auto verdict = gpu_test::run(gpu.context, *gpu.driver, problem);
                    return gpu_test::Judged{verdict.text, verdict.out.worst_ratio};
                  });
}

// As many queries as the tiles of wgmma are for, and some more.
instance::ProblemSpec with_many_queries(std::uint64_t index) {
  instance::ProblemSpec spec = test::random_problem(index);
  spec.seqlen_q =
      std::max<std::int64_t>(spec.seqlen_q, 65 + static_cast<std::int64_t>(index % 200));
  return spec;
}

TEST_CASE_TEMPLATE("sweep: 300 of 2400 random problems", Part, EIGHT_PARTS) {
  sweep(300 * Part::value, 300, gpu_test::all_cores(), test::random_problem);
}

TEST_CASE("sweep: 300 random problems of 65 queries and more") {
  sweep(200000, 300, gpu_test::all_cores(), with_many_queries);
}

// Small enough for compute-sanitizer, which scripts/sanitize-gpu runs.
TEST_CASE("sanitizer sample") { sweep(100000, 24, 2, test::random_problem); }

TEST_CASE("sanitizer sample: 65 queries and more") { sweep(100000, 24, 2, with_many_queries); }

}  // namespace
}  // namespace attnjit::forward_sweep_test
