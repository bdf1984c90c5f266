// Executor::merge_lse: the tensors that a merge's kernel may touch.
#include "executor/executor.hpp"
#include "executor/tensors.hpp"

namespace attnjit::executor {

void Executor::merge_lse(const launch::MergePlanSpec& plan, const problem::MergeProblem& problem,
                         const MergeLseArgs& args) {
  GlobalMemory memory;
  for (std::int64_t s = 0; s < args.num_parts; ++s) {
    Tensor part = args.parts;
    const std::int64_t bytes = element_size(part.dtype);
    part.data = static_cast<std::byte*>(part.data) + s * args.part_stride * bytes;
    add_tensor(memory, "parts", part, TensorRole::kInput);
  }
  add_array(memory, "part_lses", args.part_lses, args.num_parts * problem.rows(), kFloatBytes,
            TensorRole::kInput);
  const auto role = [](bool replaces) {
    return replaces ? TensorRole::kReplaced : TensorRole::kOutput;
  };
  const bool new_out = !args.carry || args.carry->data != args.out.data;
  const bool new_lse = !args.carry || args.carry_lse != args.lse;
  add_tensor(memory, "out", args.out, role(!new_out));
  add_array(memory, "lse", args.lse, problem.rows(), kFloatBytes, role(!new_lse));
  if (args.carry && new_out) add_tensor(memory, "carry", *args.carry, TensorRole::kInput);
  if (args.carry && new_lse) {
    add_array(memory, "carry_lse", args.carry_lse, problem.rows(), kFloatBytes, TensorRole::kInput);
  }
  launch::MergeArguments arguments(plan, problem, args);
  run(plan.steps.front(), arguments.shape(0).grid[0], arguments.parameters(0), memory);
}

}  // namespace attnjit::executor
