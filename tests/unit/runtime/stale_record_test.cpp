#include "runtime/load/stale_record.hpp"

#include <doctest/doctest.h>

#include "runtime/load/plan_loader.hpp"
#include "runtime/tune/problem_tuner.hpp"
#include "unit/tuning_fixtures.hpp"

using namespace attnjit;
using attnjit::test::FakeDevice;
using attnjit::test::Machine;

namespace {

// Tunes `problem`, and looks at its record as others would have left it.
template <class Pass>
void check_staleness(const typename Pass::Problem& problem) {
  const Machine machine;
  const FakeDevice device;
  runtime::Engine engine = machine.start();
  const auto record = runtime::ProblemTuner<Pass>(engine).tune(*device, problem).record;
  const auto stale = [&](auto change) {
    auto other = record;
    change(other);
    return runtime::is_stale<Pass>(engine, other, problem,
                                   codegen::find_arch(record.key.device.arch));
  };
  CHECK_FALSE(stale([](auto&) {}));
  CHECK_FALSE(stale([](auto& other) { other.driver = 12040; }));
  CHECK(stale([](auto& other) { other.library = "0.0.1"; }));
  CHECK(stale([](auto& other) { other.nvrtc = "12.4.99"; }));
  // Configuration 0 of its time would be another one.
  CHECK(stale([](auto& other) { other.verdict = other.verdict == "gain" ? "no_gain" : "gain"; }));
}

}  // namespace

TEST_CASE("a record of another version of the library or of NVRTC is stale") {
  check_staleness<launch::ForwardPass>(test::small_problem());
  check_staleness<launch::BackwardPass>(test::small_backward());
}
