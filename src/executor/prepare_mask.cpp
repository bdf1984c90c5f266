// Executor::prepare_mask: the tensors that the kernel that converts a mask to bits may touch.
#include "executor/executor.hpp"
#include "executor/prepared_call.hpp"
#include "executor/tensors.hpp"

namespace attnjit::executor {

void Executor::prepare_mask(const launch::MaskPlanSpec& plan, const problem::MaskProblem& problem,
                            const PrepareMaskArgs& args) {
  GlobalMemory memory;
  add_tensor(memory, "mask", args.mask, TensorRole::kInput);
  add_bit_mask(memory, problem.mask, launch::prepared_layout(problem), args.memory,
               TensorRole::kOutput);
  launch::MaskArguments arguments(plan, problem, args);
  run(plan.steps.front(), arguments.shape(0).grid[0], arguments.parameters(0), memory);
}

void PreparedCall::prepare(ForwardArgs& args, bool for_backward) {
  PrepareMaskArgs mask{.mask = args.mask.value(), .for_backward = for_backward, .memory = nullptr};
  const problem::MaskProblem problem = problem::make_problem(mask);
  memory_.emplace(static_cast<std::size_t>(launch::prepared_layout(problem).bytes));
  mask.memory = memory_->data();
  args.prepared_mask = problem::result_of(problem, mask);
  args.mask.reset();
  if (problem.empty()) return;
  executor_.prepare_mask(launch::make_mask_plan_spec(problem.key, templates_), problem, mask);
}

}  // namespace attnjit::executor
