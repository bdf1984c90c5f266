#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "cuda/cold_timer.hpp"
#include "launch/plan.hpp"
#include "runtime/synthetic_tensors.hpp"

namespace attnjit::runtime {

/// One problem on tensors of its own, run under one configuration after another: the only place
/// that launches kernels for their time.
class Trial {
 public:
  /// Takes the memory for tensors, for `workspace_bytes`, and for a cold L2, in the current
  /// context. Each timed launch adds 1 to `timing_launches`. Throws Error(kCuda) when memory does
  /// not suffice.
  Trial(const cuda::Driver& driver, const problem::Problem& problem, std::size_t workspace_bytes,
        unsigned jobs, std::atomic<std::uint64_t>& timing_launches);

  /// Runs `plan` and keeps its output as what the others must agree with.
  void set_expected(const launch::ForwardPlan& plan);

  /// Whether `plan` computes that output too. This and set_expected() warm the kernel up as well.
  bool agrees(const launch::ForwardPlan& plan);

  /// Microseconds of a launch of `plan` with a cold L2: the median of as many as fill half a
  /// millisecond, between 1 and 7.
  double measure_us(const launch::ForwardPlan& plan);

 private:
  void enqueue(const launch::ForwardPlan& plan);
  std::vector<std::uint16_t> output_of(const launch::ForwardPlan& plan);

  const cuda::Driver& driver_;
  const problem::Problem& problem_;
  cuda::Stream stream_;
  SyntheticTensors tensors_;
  cuda::DeviceBuffer workspace_;
  cuda::ColdTimer timer_;
  std::vector<std::uint16_t> expected_;
  double last_us_ = 0;  ///< of any plan; they are of a kind
  std::atomic<std::uint64_t>& timing_launches_;
};

}  // namespace attnjit::runtime
