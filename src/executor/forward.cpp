// Executor::forward: the tensors that a forward's kernels may touch, and its steps in order.
#include <vector>

#include "executor/executor.hpp"
#include "executor/tensor_map.hpp"
#include "executor/tensors.hpp"
#include "launch/forward_arguments.hpp"

namespace attnjit::executor {
namespace {

void add_call(GlobalMemory& memory, const ForwardArgs& args) {
  add_tensors(memory, args, {"out"});
  if (args.block_table != nullptr) {
    Tensor table;
    table.data = const_cast<std::int32_t*>(args.block_table);
    table.shape = {num_elements(args), 1, 1, args.max_pages};
    table.strides = {args.block_table_stride, 0, 0, 1};
    memory.add("block_table", table, sizeof(*args.block_table), TensorRole::kInput);
  }
  const auto& [batch, heads, seqlen_q, head_dim] = args.q.shape;
  const std::int64_t rows = batch * heads * seqlen_q;
  add_array(memory, "lse", args.lse, rows, kFloatBytes, TensorRole::kOutput);
  add_array(memory, "row_max", args.row_max, rows, kFloatBytes, TensorRole::kOutput);
  add_array(memory, "max_logits", args.max_logits, heads, kFloatBytes, TensorRole::kOutput);
  add_lengths(memory, args);
}

// Each part of the workspace that a step uses.
void add_workspace(GlobalMemory& memory, const problem::Problem& problem, const ForwardArgs& args,
                   const launch::ForwardArguments& arguments, const launch::ForwardPlanSpec& plan,
                   const launch::WorkspaceLayout& layout) {
  const auto& values = arguments.values();
  if (plan.mask_to_bits && arguments.runs(launch::ForwardStep::kMaskToBits)) {
    add_bit_mask(memory, problem.mask, launch::mask_layout(*plan.mask_to_bits, problem),
                 values.mask_to_bits.words, TensorRole::kOutput);
  }
  add_block_lists(memory, values.block_lists, problem);
  if (plan.gather_keys) add_key_selection(memory, values.gather_keys, problem);
  add_operand_ranges(memory, plan, values.operand_ranges, problem);
  if (values.forward.work_taken != nullptr) {
    add_array(memory, "work taken", values.forward.work_taken, 1, sizeof(kernel::uint32),
              TensorRole::kOutput);
  }
  if (plan.packed_order && arguments.runs(launch::ForwardStep::kPackedOrder)) {
    const kernel::PackedWork& work = values.packed_order.work;
    add_array(memory, "order", work.tiles, std::int64_t{layout.grid.q_tiles} + 1,
              sizeof(*work.tiles), TensorRole::kOutput);
    add_array(memory, "counts of the order", work.counts, kernel::PackedWork::kCounts,
              sizeof(*work.counts), TensorRole::kOutput);
  }
  if (layout.grid.splits > 1) {
    const auto rows =
        static_cast<std::int64_t>(arguments.shape(launch::ForwardStep::kCombine).grid[0]);
    const std::int64_t slots = rows * layout.grid.splits;
    add_array(memory, "partial out", values.forward.base.partial_out,
              slots * plan.combine.padded_head_dim_v(), kFloatBytes, TensorRole::kOutput);
    add_array(memory, "partial lse", values.forward.base.partial_lse, slots, kFloatBytes,
              TensorRole::kOutput);
    add_array(memory, "partial row max", values.combine.partial_row_max, slots, kFloatBytes,
              TensorRole::kOutput);
  }
  if (plan.max_logits && args.row_max == nullptr) {
    const kernel::MaxLogitsParams& p = values.max_logits;
    add_array(memory, "row max", p.row_max, std::int64_t{p.batch} * p.num_heads_q * p.seqlen_q,
              kFloatBytes, TensorRole::kOutput);
  }
}

}  // namespace

void Executor::forward(const launch::ForwardPlanSpec& plan, const problem::Problem& problem,
                       const ForwardArgs& args) {
  const launch::WorkspaceLayout layout = launch::workspace_layout(plan, problem);
  const Scratch workspace(layout.bytes);
  launch::ForwardArguments arguments(plan, problem, args, layout, workspace.data(),
                                     encode_tensor_map);
  GlobalMemory memory;
  add_call(memory, args);
  add_prepared_mask(memory, problem, args);
  add_workspace(memory, problem, args, arguments, plan, layout);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (!arguments.runs(i)) continue;
    run(plan.steps[i], arguments.shape(i).grid[0], arguments.parameters(i), memory);
  }
}

}  // namespace attnjit::executor
