#include "runtime/tune/trial.hpp"

#include <algorithm>

#include "attnjit/error.hpp"
#include "runtime/tune/output_check.hpp"

namespace attnjit::runtime {
namespace {

constexpr double kEnoughUs = 500;  // of launches in one measurement
constexpr double kMostLaunches = 7;
constexpr int kWarmUps = 3;
constexpr std::uint8_t kUnwritten = 0xff;  // NaN in fp16, bf16 and fp32

DType operand_dtype(const problem::Problem& problem) { return problem.dtype; }
DType operand_dtype(const problem::BackwardProblem& problem) { return problem.forward.dtype; }

}  // namespace

template <class Pass>
Trial<Pass>::Trial(const cuda::Driver& driver, const typename Pass::Problem& problem,
                   std::size_t workspace_bytes, unsigned jobs,
                   std::atomic<std::uint64_t>& timing_launches)
    : driver_(driver),
      problem_(problem),
      stream_(driver),
      tensors_(driver, problem, jobs, stream_.get()),
      workspace_(driver, workspace_bytes),
      timer_(driver),
      timing_launches_(timing_launches) {}

template <class Pass>
void Trial<Pass>::run_forward(
    const launch::ForwardPlan& plan) requires std::same_as<Pass, launch::BackwardPass> {
  const launch::WorkspaceLayout layout = launch::workspace_layout(plan.spec(), problem_.forward);
  const cuda::DeviceBuffer workspace(driver_, layout.bytes);
  plan.launch(driver_, problem_.forward, tensors_.args().forward, layout, workspace.data(),
              stream_.get());
  stream_.synchronize();
}

template <class Pass>
void Trial<Pass>::enqueue(const Plan& plan) {
  plan.launch(driver_, problem_, tensors_.args(), launch::workspace_layout(plan.spec(), problem_),
              workspace_.data(), stream_.get());
}

template <class Pass>
auto Trial<Pass>::outputs_of(const Plan& plan) -> Outputs {
  for (const OutputMemory& output : tensors_.outputs()) {
    cuda::fill_bytes(driver_, output.data, kUnwritten, output.bytes, stream_.get());
  }
  for (int i = 0; i < kWarmUps; ++i) enqueue(plan);
  Outputs samples;
  for (const OutputMemory& output : tensors_.outputs()) {
    samples.push_back(sample_output(driver_, output, stream_.get()));
  }
  return samples;
}

template <class Pass>
void Trial<Pass>::set_expected(const Plan& plan) {
  expected_ = outputs_of(plan);
}

template <class Pass>
bool Trial<Pass>::agrees(const Plan& plan) {
  return std::ranges::equal(expected_, outputs_of(plan), [&](const auto& want, const auto& got) {
    return outputs_agree(operand_dtype(problem_), want, got);
  });
}

template <class Pass>
bool Trial<Pass>::context_lost() const {
  try {
    stream_.synchronize();
    return false;
  } catch (const Error&) {
    return true;
  }
}

template <class Pass>
double Trial<Pass>::measure_us(const Plan& plan) {
  const double fill = last_us_ > 0 ? kEnoughUs / last_us_ : 1;
  const int launches = static_cast<int>(std::clamp(fill, 1.0, kMostLaunches));
  timing_launches_ += static_cast<std::uint64_t>(launches);
  last_us_ = 1000.0 * timer_.median_ms(stream_.get(), launches, [&] { enqueue(plan); });
  return last_us_;
}

template class Trial<launch::ForwardPass>;
template class Trial<launch::BackwardPass>;

}  // namespace attnjit::runtime
