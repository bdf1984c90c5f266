#include "cli/work/compile_sweep.hpp"

#include <doctest/doctest.h>

namespace attnjit::cli {
namespace {

TEST_CASE("kernels with large tiles are compiled first, equal ones as they are listed") {
  Sweep sweep;
  for (const unsigned shared_bytes : {0u, 4096u, 65536u, 4096u}) {
    sweep.kernels.emplace_back().step.spec.shared_bytes = shared_bytes;
  }
  CHECK(compile_order(sweep) == std::vector<std::size_t>{2, 1, 3, 0});
}

}  // namespace
}  // namespace attnjit::cli
