#include "cli/work/compile_sweep.hpp"

#include <doctest/doctest.h>

#include "command_line.hpp"

namespace attnjit::cli {
namespace {

TEST_CASE("kernels with large tiles are compiled first, equal ones as they are listed") {
  Sweep sweep;
  for (const unsigned shared_bytes : {0u, 4096u, 65536u, 4096u}) {
    sweep.kernels.emplace_back().step.spec.shared_bytes = shared_bytes;
  }
  CHECK(compile_order(sweep) == std::vector<std::size_t>{2, 1, 3, 0});
}

TEST_CASE("a sweep that runs out of memory has its table all the same") {
  const test::CommandLine attnjit;
  const test::Outcome outcome =
      attnjit(test::small_problem({"warmup", "--json"}),
              {{"ATTNJIT_NVRTC", FAKE_NVRTC}, {"FAKE_NVRTC_RESULT", "throw"}});
  CHECK(outcome.code == 1);
  CHECK(outcome.json().at("failed") == outcome.json().at("kernels").size());
  CHECK(test::holds(outcome.err, "out of memory; free some, or use fewer threads"));
}

}  // namespace
}  // namespace attnjit::cli
