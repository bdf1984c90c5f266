// Executor::backward: the tensors that a backward's kernels may touch, and its steps in order.
#include "executor/executor.hpp"
#include "executor/tensor_map.hpp"
#include "executor/tensors.hpp"
#include "launch/backward_arguments.hpp"

namespace attnjit::executor {
namespace {

using launch::BackwardStep;

void add_call(GlobalMemory& memory, const BackwardArgs& args) {
  const ForwardArgs& forward = args.forward;
  add_tensors(memory, forward, {});
  add_tensors(memory, args, {"dq", "dk", "dv", "dbias", "dsink", "operand_gradients"});
  const auto& [batch, heads, seqlen_q, head_dim] = forward.q.shape;
  const std::int64_t rows = batch * heads * seqlen_q;
  add_array(memory, "lse", forward.lse, rows, kFloatBytes, TensorRole::kInput);
  add_array(memory, "dlse", args.dlse, rows, kFloatBytes, TensorRole::kInput);
  add_lengths(memory, forward);
}

void add_workspace(GlobalMemory& memory, const launch::BackwardPlanSpec& plan,
                   const problem::BackwardProblem& problem,
                   const launch::BackwardArguments& arguments, const launch::BackwardLayout& layout,
                   const std::byte* workspace) {
  const auto& values = arguments.values();
  const kernel::BackwardParams& dkv = values.dkv.base;
  const std::int64_t rows = layout.grid.rows();
  add_array(memory, "lse of live rows", dkv.rows.lse, rows, kFloatBytes, TensorRole::kOutput);
  add_array(memory, "delta", dkv.rows.delta, rows, kFloatBytes, TensorRole::kOutput);
  add_array(memory, "live rows", dkv.rows.live, rows / 32, kFloatBytes, TensorRole::kOutput);
  add_array(memory, "row bf16x3", values.dkv.row_bf16x3, rows * (kernel::kRowBf16x3Bytes / 4),
            kFloatBytes, TensorRole::kOutput);
  add_block_lists(memory, values.block_lists, problem.forward);
  if (plan.gather_keys) {
    add_key_selection(memory, values.gather_keys, problem.forward);
    add_key_gradients(memory, values.scatter_keys, problem);
  }
  add_operand_ranges(memory, plan, values.operand_ranges, problem.forward);
  add_array(memory, "sums of rows of dS", values.preprocess.ds_rows, rows, kFloatBytes,
            TensorRole::kOutput);
  add_array(memory, "dsink of rows", values.preprocess.dsink_rows, rows, kFloatBytes,
            TensorRole::kOutput);
  const bool per_block = plan.tunables.dbias_method == codegen::DbiasMethod::kPerBlock;
  if (layout.grid.dbias_shares > 1 && (plan.dbias_kernel || per_block)) {
    const kernel::BiasGradParams& shares = per_block ? values.dkv_dbias : values.dbias_dbias;
    add_array(memory, "shares of dbias", values.bias_sum.partials,
              shares.batch_stride * problem.dbias.batches * layout.grid.dbias_shares, kFloatBytes,
              TensorRole::kOutput);
  }
  if (plan.tunables.dbias_method == codegen::DbiasMethod::kPerPlane) {
    const std::int64_t rows_of_dbias = layout.grid.q_planes * problem.dbias.queries;
    add_array(memory, "partials of dbias", values.bias_sum.partials,
              rows_of_dbias * launch::dbias_partial_keys(problem), sizeof(kernel::uint16),
              TensorRole::kOutput);
  }
  for (std::size_t n = 0; n < plan.sites.list.size(); ++n) {
    const std::int64_t entries = layout.sites[n].entries;
    if (entries == 0) continue;
    const kernel::OperandGradientParams& site = values.sites[n];
    add_array(memory, "sums of an operand", site.values, layout.sites[n].shares * entries,
              kFloatBytes, TensorRole::kOutput);
    add_array(memory, "elements of an operand", site.elements, entries, sizeof(kernel::int32),
              TensorRole::kOutput);
    add_array(memory, "ranges of elements", site.ranges, entries / kernel::kListChunk,
              sizeof(kernel::IntRange), TensorRole::kOutput);
  }
  for (std::size_t n = 0; n < problem.gradients_of_operands().size(); ++n) {
    const launch::SliceLayout& slices = layout.slices[n];
    if (slices.slices == 1) continue;
    const std::int64_t elements = launch::elements(problem.operand_gradients[n]);
    add_array(memory, "sums of slices", workspace + slices.sums, slices.slices * elements,
              kFloatBytes, TensorRole::kOutput);
  }
  // Thread blocks that take whole planes have the same sums for one after another.
  const bool before = layout.dq_sum < layout.sums;  // dq's sums, and the others
  const std::size_t dq_end = before ? layout.sums : layout.bytes;
  const std::size_t sums_end = before || !plan.adds_dq() ? layout.bytes : layout.dq_sum;
  if (plan.adds_dq() || plan.owns_kv_head()) {
    add_array(memory, "sums of dq", dkv.dq_sum,
              static_cast<std::int64_t>((dq_end - layout.dq_sum) / kFloatBytes), kFloatBytes,
              plan.owns_kv_head() ? TensorRole::kReused : TensorRole::kOutput);
  }
  // One array for all other sums, which lie one after another; calls differ in which of them exist.
  add_array(memory, "fp32 sums", values.preprocess.sums,
            static_cast<std::int64_t>((sums_end - layout.sums) / kFloatBytes), kFloatBytes,
            TensorRole::kOutput);
}

}  // namespace

void Executor::backward(const launch::BackwardPlanSpec& plan,
                        const problem::BackwardProblem& problem, const BackwardArgs& args) {
  const launch::BackwardLayout layout = launch::workspace_layout(plan, problem);
  const Scratch workspace(layout.bytes);
  launch::BackwardArguments arguments(plan, problem, args, layout, workspace.data(),
                                      encode_tensor_map);
  GlobalMemory memory;
  add_call(memory, args);
  add_prepared_mask(memory, problem.forward, args.forward);
  if (plan.mask_to_bits) {
    add_bit_mask(
        memory, problem.forward.mask, launch::mask_layout(*plan.mask_to_bits, problem.forward),
        static_cast<const std::byte*>(workspace.data()) + layout.mask, TensorRole::kOutput);
  }
  add_workspace(memory, plan, problem, arguments, layout,
                static_cast<const std::byte*>(workspace.data()));
  for (const auto& step : plan.steps) {
    if (!arguments.runs(step.kind)) continue;
    run(step, arguments.shape(step.kind).grid[0], arguments.parameters(step.kind), memory);
  }
}

}  // namespace attnjit::executor
