// Random problems, their kernels run on the CPU with every access checked and judged against fp64.
#include <doctest/doctest.h>

#include <mutex>
#include <thread>

#include "base/parallel.hpp"
#include "bench.hpp"
#include "random_problem.hpp"

namespace attnjit::executor_test {
namespace {

// Runs problems [first, first + count), every second one for an architecture whose combine step
// overlaps the forward.
void sweep(std::uint64_t first, std::uint64_t count) {
  Bench bench;
  std::mutex mutex;
  std::string failures;
  std::size_t failed = 0;
  base::parallel_for(count, std::thread::hardware_concurrency(), [&](std::size_t i) {
    const reference::ProblemSpec spec = test::small_problem(first + i);
    const codegen::Arch& arch = codegen::find_arch(i % 2 == 0 ? "sm_80" : "sm_90a");
    std::string text;
    try {
      text = bench.forward(spec, arch);
    } catch (const Error& error) {
      text = error.what();
    }
    if (text.empty()) return;
    const std::lock_guard lock(mutex);
    if (++failed <= 20) {
      failures += "problem " + std::to_string(first + i) + ": " + reference::describe(spec) + "\n" +
                  text + "\n";
    }
  });
  INFO(failures);
  CHECK(failed == 0);
}

TEST_CASE("60 problems") { sweep(0, 60); }
TEST_CASE("300 problems") { sweep(1000, 300); }

}  // namespace
}  // namespace attnjit::executor_test
