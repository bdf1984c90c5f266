#include "launch/key_selection.hpp"

#include "launch/bit_mask.hpp"
#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

using problem::ExpressionOperand;

std::int64_t planes_of(const problem::Problem& p) { return std::int64_t{p.batch} * p.num_heads_kv; }

void set_numbers(const expr::Ref& expression, const problem::ExpressionOperands& operands,
                 const kernel::GatherKeysParams& gather,
                 kernel::ExpressionParams<kernel::kMaxExpressionOperands>& params) {
  if (!expression) return;
  for (std::size_t n = 0; n < expression->dtypes.size(); ++n) {
    const std::int32_t argument = operands[n].argument;
    if (argument == ExpressionOperand::kSelectedKeys) params.operands[n].data = gather.selected;
    if (argument == ExpressionOperand::kKeyNumbers) params.operands[n].data = gather.key_numbers;
  }
}

}  // namespace

KeySelectionLayout key_selection_layout(const problem::Problem& problem, codegen::Pass pass) {
  KeySelectionLayout layout;
  const std::int64_t rows = planes_of(problem) * problem.seqlen_kv;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t offset = layout.bytes;
    layout.bytes += static_cast<std::int64_t>(align_up(static_cast<std::size_t>(bytes)));
    return offset;
  };
  const std::int64_t k_bytes = rows * problem::selected_row(problem.head_dim) * 2;
  const std::int64_t v_bytes = rows * problem::selected_row(problem.head_dim_v) * 2;
  layout.k = take(k_bytes);
  layout.v = take(v_bytes);
  layout.selected = take(rows * std::int64_t{sizeof(kernel::int32)});
  layout.key_numbers = take(problem.batch * std::int64_t{sizeof(kernel::int32)});
  if (pass == codegen::Pass::kBackward) {
    layout.dk = take(k_bytes);
    layout.dv = take(v_bytes);
  }
  return layout;
}

std::int64_t gather_blocks(const kernel::GatherKeysConfig& config,
                           const problem::Problem& problem) {
  return ceil_div(planes_of(problem) * problem.seqlen_kv, config.block_rows());
}

void set_key_selection(const problem::Problem& problem, const ForwardArgs& args, void* memory,
                       const KeySelectionLayout& layout, codegen::FeatureValues& features,
                       kernel::GatherKeysParams& gather) {
  const problem::KeySelection& s = problem.selection;
  gather = {.k = args.k.data,
            .v = args.v.data,
            .k_strides = row_strides(s.k),
            .v_strides = row_strides(s.v),
            .indices = args.key_indices->data,
            .index_strides = {s.batch_stride, s.head_stride, s.key_stride},
            .seqlens_kv = args.seqlens_kv,
            .num_keys = s.num_keys,
            .num_selected = problem.seqlen_kv,
            .num_heads = problem.num_heads_kv,
            .num_batches = problem.batch,
            .k_copy = at_offset<void>(memory, layout.k),
            .v_copy = at_offset<void>(memory, layout.v),
            .selected = at_offset<kernel::int32>(memory, layout.selected),
            .key_numbers = at_offset<kernel::int32>(memory, layout.key_numbers),
            .work_taken = nullptr};
  if (problem.seqlen_kv == 0) return;  // nothing is copied, and no pair reads a number
  set_numbers(problem.score, problem.score_operands, gather, features.score);
  set_numbers(problem.keep, problem.keep_operands, gather, features.keep);
}

kernel::ScatterKeysParams scatter_params(const kernel::ScatterKeysConfig& config,
                                         const problem::BackwardProblem& problem,
                                         const BackwardArgs& args, void* memory,
                                         const KeySelectionLayout& layout) {
  const problem::Problem& p = problem.forward;
  return {.dk_selected = at_offset<void>(memory, layout.dk),
          .dv_selected = at_offset<void>(memory, layout.dv),
          .selected = at_offset<kernel::int32>(memory, layout.selected),
          .dk = args.dk.data,
          .dv = args.dv.data,
          .dk_strides = row_strides(problem.caller_dk),
          .dv_strides = row_strides(problem.caller_dv),
          .num_keys = p.selection.num_keys,
          .num_selected = p.seqlen_kv,
          .num_heads = p.num_heads_kv,
          .blocks_per_plane = kernel::ceil_div(p.selection.num_keys, config.num_keys)};
}

std::int64_t scatter_blocks(const kernel::ScatterKeysConfig& config,
                            const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  return planes_of(p) * kernel::ceil_div(p.selection.num_keys, config.num_keys);
}

ForwardArgs over_selected(const ForwardArgs& args, void* memory, const KeySelectionLayout& layout) {
  ForwardArgs over = args;
  over.k.data = at_offset<void>(memory, layout.k);
  over.v.data = at_offset<void>(memory, layout.v);
  over.seqlens_kv = nullptr;  // what lies past them is not selected
  return over;
}

BackwardArgs over_selected(const BackwardArgs& args, void* memory,
                           const KeySelectionLayout& layout) {
  BackwardArgs over = args;
  over.forward = over_selected(args.forward, memory, layout);
  over.dk.data = at_offset<void>(memory, layout.dk);
  over.dv.data = at_offset<void>(memory, layout.dv);
  return over;
}

}  // namespace attnjit::launch
