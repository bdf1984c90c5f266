#pragma once
#include <functional>

#include "attnjit/context.hpp"
#include "check/device_mirror.hpp"
#include "cli/work/bench_row.hpp"
#include "cli/work/planning.hpp"
#include "cuda/cold_timer.hpp"
#include "cuda/device.hpp"

namespace attnjit::cli {

/// Times Context::forward and backward on the first GPU, as bench/README.md says.
class Bench {
 public:
  static constexpr int kRounds = 7;

  /// Throws Error(kNoDevice) where there is no usable GPU.
  explicit Bench(Session& session);

  const cuda::DeviceInfo& device() const { return device_; }

  /// Compiles (and tunes) `job`, then times it. Throws Error(kUnsupported) for a problem that the
  /// library does not serve or whose tensors do not fit, Error(kInvalidProblem) for an empty one.
  Measurement measure(const Case& job);

 private:
  Measurement time_forward(const check::DeviceMirror& mirror);
  Measurement time_backward(const check::DeviceMirror& mirror);
  Measurement time(std::size_t workspace_bytes, const std::function<void(const Workspace&)>& call);

  Session& session_;
  const cuda::Driver& driver_;
  const cuda::PrimaryContext current_;
  const cuda::DeviceInfo device_;
  Planner planner_;
  const cuda::Stream stream_;
  cuda::ColdTimer timer_;
  Context context_;
};

}  // namespace attnjit::cli
