#pragma once
#include <functional>
#include <optional>

#include "check/device_mirror.hpp"
#include "cli/work/bench/bench_row.hpp"
#include "cli/work/planning.hpp"
#include "cuda/cold_timer.hpp"
#include "cuda/device.hpp"
#include "cuda/sm_clock.hpp"
#include "runtime/call/dispatcher.hpp"

namespace attnjit::cli {

/// Times calls of forward and backward on the first GPU, as bench/README.md says.
class Bench {
 public:
  static constexpr int kRounds = 7;

  /// Takes only `path`, if there is one. `samples_clock`: rounds are timed while a thread reads the
  /// clock of the SMs, where NVML is there. Throws Error(kNoDevice) where there is no usable GPU.
  Bench(Session& session, std::optional<codegen::Path> path, bool samples_clock = false);

  const cuda::DeviceInfo& device() const { return device_; }

  /// Compiles (and tunes) `job`, then times it. Throws Error(kUnsupported) for a problem that the
  /// library or the path does not serve or whose tensors do not fit, Error(kInvalidProblem) for an
  /// empty one.
  Measurement measure(const Case& job);

 private:
  Measurement time_forward(const check::DeviceMirror& mirror);
  Measurement time_backward(const check::DeviceMirror& mirror);
  Measurement time(std::size_t workspace_bytes, const std::function<void(const Workspace&)>& call);

  Session& session_;
  const cuda::Driver& driver_;
  const cuda::PrimaryContext current_;
  const cuda::DeviceInfo device_;
  const std::optional<cuda::SmClock> clock_;
  Planner planner_;
  const cuda::Stream stream_;
  cuda::ColdTimer timer_;
  runtime::Dispatcher dispatcher_;
};

}  // namespace attnjit::cli
