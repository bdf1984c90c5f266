// Stream captures on a real device: of calls that have their plan and of calls that do not.
#include <cstdint>
#include <filesystem>
#include <memory>

#include "gpu.hpp"
#include "runtime/call/dispatcher.hpp"
#include "runtime/tune/problem_tuner.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit {
namespace {

using gpu_test::masked_problem;
using gpu_test::tuning_environment;
using instance::ProblemSpec;
using runtime::Dispatcher;
using test::TempDirectory;

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};

/// A problem on the device, and a stream for it.
class Job {
 public:
  Job(const cuda::Driver& driver, const ProblemSpec& spec)
      : driver_(driver), problem_(spec, 4), mirror_(driver, problem_), stream_(driver) {}

  void call(Dispatcher& dispatcher) const {
    if (problem_.spec().backward) {
      dispatcher.backward(mirror_.backward_args(), stream_.get());
    } else {
      dispatcher.forward(mirror_.args(), stream_.get());
    }
  }

  cuda::GraphExec capture(Dispatcher& dispatcher, CUstreamCaptureMode mode) const {
    cuda::Capture capture(driver_, stream_.get(), mode);
    call(dispatcher);
    return cuda::GraphExec(capture.end());
  }

  /// What `work` enqueues on the stream makes the outputs, from poison.
  template <class Work>
  void expect_right(Work work) {
    problem_.poison_outputs();
    mirror_.upload_outputs();
    work(stream_.get());
    stream_.synchronize();
    mirror_.download(problem_);
    const auto expect = [](const auto& verdict) {
      INFO(verdict.text);
      CHECK(verdict.pass);
    };
    if (problem_.spec().backward) {
      expect(check::judge_backward(problem_, reference::Planes::every(), 4));
    } else {
      expect(check::judge_forward(problem_, reference::Rows::every(), 4));
    }
  }

  CUstream stream() const { return stream_.get(); }

 private:
  const cuda::Driver& driver_;
  instance::HostProblem problem_;
  check::DeviceMirror mirror_;
  cuda::Stream stream_;
};

/// A cache that holds the kernels of all candidates for a problem, so that the budget of a call
/// suffices to time them, and no record.
class WarmCache {
 public:
  WarmCache(const cuda::Driver& driver, const ProblemSpec& spec) {
    runtime::Engine engine(tuning_environment(directory_.path()));
    const instance::HostProblem host(spec, 4);
    const check::DeviceMirror mirror(driver, host);
    if (spec.backward) {
      const auto problem = problem::make_problem(mirror.backward_args());
      runtime::BackwardTuner(engine).tune(driver, problem);
    } else {
      runtime::ForwardTuner(engine).tune(driver, problem::make_problem(mirror.args()));
    }
  }

  std::unique_ptr<Dispatcher> dispatch(const gpu_test::Gpu& gpu) const {
    std::filesystem::remove_all(directory_ / "v1" / "t");
    return std::make_unique<Dispatcher>(tuning_environment(directory_.path()), base::Log::Sink(),
                                        gpu.driver);
  }

 private:
  TempDirectory directory_;
};

// Captures `spec` before and after its first call outside of a capture.
void capture_cold_and_warm(const gpu_test::Gpu& gpu, const WarmCache& cache,
                           const ProblemSpec& spec, CUstreamCaptureMode mode) {
  const auto dispatcher = cache.dispatch(gpu);
  Job job(*gpu.driver, spec);
  const cuda::GraphExec cold = job.capture(*dispatcher, mode);
  job.expect_right([&](CUstream stream) { cold.launch(stream); });
  CHECK(dispatcher->counters().tunes == 0);
  CHECK(dispatcher->counters().timing_launches == 0);

  job.expect_right([&](CUstream) { job.call(*dispatcher); });
  CHECK(dispatcher->counters().tunes == 1);
  const std::uint64_t timed = dispatcher->counters().timing_launches;
  CHECK(timed > 0);

  const cuda::GraphExec warm = job.capture(*dispatcher, mode);
  job.expect_right([&](CUstream stream) { warm.launch(stream); });
  job.expect_right([&](CUstream stream) { cold.launch(stream); });  // its kernels are still there
  CHECK(dispatcher->counters().tunes == 1);
  CHECK(dispatcher->counters().timing_launches == timed);
}

TEST_CASE("capture: in each mode a cold call is not tuned, and its graph outlives the tuning") {
  ATTNJIT_NEED_GPU(gpu);
  const WarmCache cache(*gpu.driver, masked_problem());
  for (const CUstreamCaptureMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    capture_cold_and_warm(gpu, cache, masked_problem(), mode);
  }
}

TEST_CASE("capture: so it is with a backward") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec spec = masked_problem();
  spec.backward = true;
  capture_cold_and_warm(gpu, WarmCache(*gpu.driver, spec), spec, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("capture: a cold call on another stream is tuned, and harms no capture") {
  ATTNJIT_NEED_GPU(gpu);
  const WarmCache cache(*gpu.driver, masked_problem());
  for (const CUstreamCaptureMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    const auto dispatcher = cache.dispatch(gpu);
    Job captured(*gpu.driver, masked_problem()), other(*gpu.driver, masked_problem());
    cuda::Capture capture(*gpu.driver, captured.stream(), mode);
    other.call(*dispatcher);
    CHECK(dispatcher->counters().tunes == 1);
    captured.call(*dispatcher);
    const cuda::GraphExec graph(capture.end());
    captured.expect_right([&](CUstream stream) { graph.launch(stream); });
    other.expect_right([&](CUstream) { other.call(*dispatcher); });
  }
}

}  // namespace
}  // namespace attnjit
