// Calls inside and outside of stream captures, on a device that does not exist.
#include <doctest/doctest.h>

#include "unit/tuning_fixtures.hpp"

using namespace attnjit;
using attnjit::test::FakeDevice;
using attnjit::test::Machine;
using runtime::Dispatcher;

namespace {

// Sets what the driver says of every stream while it lives.
class CapturedStreams {
 public:
  CapturedStreams() { cuda::stub().capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE; }
  ~CapturedStreams() { cuda::stub().capture_status = CU_STREAM_CAPTURE_STATUS_NONE; }
};

// A problem that needs a workspace: its mask is converted to bits.
ForwardArgs masked_args() {
  ForwardArgs args = test::small_args();
  args.mask = test::mask(args, "b1qk");
  return args;
}

Workspace workspace(std::size_t bytes) { return {test::fake_address(20), bytes}; }

// Launches of blocks as large as the last one take twice as long as the others.
void prefer_other_blocks() {
  FakeDevice::milliseconds() = [slow = cuda::stub().launch.blockDimX](const CUlaunchConfig& l) {
    return l.blockDimX == slow ? 0.1f : 0.05f;
  };
}

void expect_untuned(const Dispatcher& dispatcher) {
  CHECK(dispatcher.counters().tunes == 0);
  CHECK(dispatcher.counters().timing_launches == 0);
}

}  // namespace

TEST_CASE("a problem met first in a capture is tuned by the first call outside of one") {
  const Machine machine;
  const FakeDevice device;
  test::compile_candidates<problem::Problem, runtime::ForwardTuner>(machine, device,
                                                                    test::small_problem());
  const auto dispatcher = machine.dispatch(device);
  const ForwardArgs args = test::small_args();
  unsigned captured_block = 0;
  {
    const CapturedStreams captured;
    dispatcher->forward(args, nullptr, {});
    captured_block = cuda::stub().launch.blockDimX;
    dispatcher->forward(args, nullptr, {});
    CHECK(cuda::stub().launch.blockDimX == captured_block);
    CHECK(dispatcher->counters().plans == 1);
    expect_untuned(*dispatcher);
  }
  prefer_other_blocks();
  dispatcher->forward(args, nullptr, {});
  CHECK(dispatcher->counters().tunes == 1);
  CHECK(dispatcher->counters().plans == 2);
  const unsigned tuned_block = cuda::stub().launch.blockDimX;
  CHECK(tuned_block != captured_block);
  // The captured work goes on: the kernels of both plans are loaded, two each.
  CHECK(cuda::stub().count("library_load") - cuda::stub().count("library_unload") == 4);
  {
    const CapturedStreams captured;
    dispatcher->forward(args, nullptr, {});
  }
  CHECK(cuda::stub().launch.blockDimX == tuned_block);
  CHECK(dispatcher->counters().tunes == 1);
  CHECK(dispatcher->counters().plans == 2);
}

TEST_CASE("so is a backward") {
  const Machine machine;
  const FakeDevice device;
  test::compile_candidates<problem::BackwardProblem, runtime::BackwardTuner>(
      machine, device, test::small_backward());
  const auto dispatcher = machine.dispatch(device);
  {
    const CapturedStreams captured;
    dispatcher->backward(test::small_backward_args(), nullptr, {});
    expect_untuned(*dispatcher);
  }
  dispatcher->backward(test::small_backward_args(), nullptr, {});
  CHECK(dispatcher->counters().tunes == 1);
}

TEST_CASE("the driver's refusal to tell of the legacy stream counts as a capture") {
  const Machine machine;
  const FakeDevice device;
  const auto dispatcher = machine.dispatch(device);
  cuda::stub().results["is_capturing"] = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  dispatcher->forward(test::small_args(), nullptr, {});
  expect_untuned(*dispatcher);
}

TEST_CASE("a call is prepared untuned where the driver tells of a capture") {
  const Machine machine;
  const FakeDevice device;
  const auto dispatcher = machine.dispatch(device);
  {
    const CapturedStreams captured;
    dispatcher->prepare_forward(test::small_args());
    dispatcher->prepare_backward(test::small_backward_args());
  }
  CHECK(dispatcher->counters().plans == 2);
  expect_untuned(*dispatcher);
  dispatcher->prepare_forward(test::small_args());
  CHECK(dispatcher->counters().tunes == 1);
}

TEST_CASE("a workspace size is told without tuning, and suffices for what tuning chooses") {
  const Machine machine;
  const FakeDevice device;
  const ForwardArgs args = masked_args();
  test::compile_candidates<problem::Problem, runtime::ForwardTuner>(machine, device,
                                                                    problem::make_problem(args));
  const auto dispatcher = machine.dispatch(device);
  const std::size_t bytes = dispatcher->forward_workspace_size(args);
  CHECK(bytes > 0);
  CHECK(dispatcher->counters().plans == 0);
  expect_untuned(*dispatcher);
  {
    const CapturedStreams captured;
    dispatcher->forward(args, nullptr, workspace(bytes));
    CHECK(dispatcher->forward_workspace_size(args) == bytes);  // a call outside may still tune
    expect_untuned(*dispatcher);
  }
  prefer_other_blocks();
  dispatcher->forward(args, nullptr, workspace(bytes));
  CHECK(dispatcher->counters().tunes == 1);
  CHECK(dispatcher->forward_workspace_size(args) <= bytes);
  CHECK(dispatcher->backward_workspace_size(test::small_backward_args()) > 0);
  CHECK(dispatcher->counters().tunes == 1);
}

TEST_CASE("where nothing would be tuned the plan of a capture stays") {
  const Machine machine;
  const FakeDevice device;
  for (const char* mode : {"cached", "off"}) {
    CAPTURE(std::string(mode));
    const auto dispatcher = machine.dispatch(device, {{"ATTNJIT_AUTOTUNE", mode}});
    {
      const CapturedStreams captured;
      dispatcher->forward(test::small_args(), nullptr, {});
    }
    dispatcher->forward(test::small_args(), nullptr, {});
    CHECK(dispatcher->counters().plans == 1);
    expect_untuned(*dispatcher);
  }
}
