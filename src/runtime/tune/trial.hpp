#pragma once
#include <atomic>
#include <concepts>
#include <cstdint>
#include <vector>

#include "cuda/cold_timer.hpp"
#include "launch/plan.hpp"
#include "runtime/tune/synthetic_tensors.hpp"

namespace attnjit::runtime {

/// One problem on tensors of its own, run under one configuration after another: the only place
/// that launches kernels for their time.
template <class Pass>
class Trial {
 public:
  using Plan = launch::Plan<Pass>;

  /// Takes the memory for tensors, for `workspace_bytes`, and for a cold L2, in the current
  /// context. Each timed launch adds 1 to `timing_launches`. Throws Error(kCuda) when memory does
  /// not suffice.
  Trial(const cuda::Driver& driver, const typename Pass::Problem& problem,
        std::size_t workspace_bytes, unsigned jobs, std::atomic<std::uint64_t>& timing_launches);

  /// Runs the forward whose gradients are tried, for the out and lse that a backward reads.
  void run_forward(
      const launch::ForwardPlan& plan) requires std::same_as<Pass, launch::BackwardPass>;

  /// Runs `plan` and keeps its outputs as what the others must agree with.
  void set_expected(const Plan& plan);

  /// Whether `plan` computes those outputs too. This and set_expected() warm the kernel up as well.
  bool agrees(const Plan& plan);

  /// Whether nothing runs in this context any more: a kernel trapped, or touched what is not its
  /// own.
  bool context_lost() const;

  /// Microseconds of a launch of `plan` with a cold L2: the median of as many as fill half a
  /// millisecond, between 1 and 7.
  double measure_us(const Plan& plan);

 private:
  using Outputs = std::vector<std::vector<float>>;

  void enqueue(const Plan& plan);
  Outputs outputs_of(const Plan& plan);

  const cuda::Driver& driver_;
  const typename Pass::Problem& problem_;
  cuda::Stream stream_;
  BasicSyntheticTensors<Pass> tensors_;
  cuda::DeviceBuffer workspace_;
  cuda::ColdTimer timer_;
  Outputs expected_;
  double last_us_ = 0;  ///< of any plan; they are of a kind
  std::atomic<std::uint64_t>& timing_launches_;
};

}  // namespace attnjit::runtime
