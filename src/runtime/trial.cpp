#include "runtime/trial.hpp"

#include <algorithm>

#include "runtime/output_check.hpp"

namespace attnjit::runtime {
namespace {

constexpr double kEnoughUs = 500;  // of launches in one measurement
constexpr double kMostLaunches = 7;
constexpr int kWarmUps = 3;
constexpr std::uint8_t kUnwritten = 0xff;  // NaN in fp16 and bf16

}  // namespace

Trial::Trial(const cuda::Driver& driver, const problem::Problem& problem,
             std::size_t workspace_bytes, unsigned jobs,
             std::atomic<std::uint64_t>& timing_launches)
    : driver_(driver),
      problem_(problem),
      stream_(driver),
      tensors_(driver, problem, jobs, stream_.get()),
      workspace_(driver, workspace_bytes),
      timer_(driver),
      timing_launches_(timing_launches) {}

void Trial::enqueue(const launch::ForwardPlan& plan) {
  plan.launch(driver_, problem_, tensors_.args(), launch::workspace_layout(plan.spec(), problem_),
              workspace_.data(), stream_.get());
}

std::vector<std::uint16_t> Trial::output_of(const launch::ForwardPlan& plan) {
  cuda::fill_bytes(driver_, tensors_.out_memory(), kUnwritten, tensors_.out_bytes(), stream_.get());
  for (int i = 0; i < kWarmUps; ++i) enqueue(plan);
  return sample_output(driver_, tensors_.out_memory(), tensors_.out_bytes(), stream_.get());
}

void Trial::set_expected(const launch::ForwardPlan& plan) { expected_ = output_of(plan); }

bool Trial::agrees(const launch::ForwardPlan& plan) {
  return outputs_agree(problem_.dtype, expected_, output_of(plan));
}

double Trial::measure_us(const launch::ForwardPlan& plan) {
  const double fill = last_us_ > 0 ? kEnoughUs / last_us_ : 1;
  const int launches = static_cast<int>(std::clamp(fill, 1.0, kMostLaunches));
  timing_launches_ += static_cast<std::uint64_t>(launches);
  last_us_ = 1000.0 * timer_.median_ms(stream_.get(), launches, [&] { enqueue(plan); });
  return last_us_;
}

}  // namespace attnjit::runtime
