#include "launch/merge_plan.hpp"

#include "launch/grid.hpp"

namespace attnjit::launch {

MergePlanSpec make_merge_plan_spec(const problem::MergeKey& key,
                                   const codegen::TemplateSet& templates) {
  MergePlanSpec spec{.config = codegen::merge_lse_config(key)};
  spec.steps.push_back(
      make_step(codegen::render_merge_lse(spec.config, templates), spec.config, 0));
  return spec;
}

MergeArguments::MergeArguments(const MergePlanSpec& spec, const problem::MergeProblem& problem,
                               const MergeLseArgs& args)
    : params_{.parts = args.parts.data,
              .part_lses = args.part_lses,
              .carry = args.carry ? static_cast<const float*>(args.carry->data) : nullptr,
              .carry_lse = args.carry_lse,
              .out = args.out.data,
              .lse = args.lse,
              .part_stride = problem.part_stride,
              .part_strides = row_strides(problem.parts),
              .carry_strides = row_strides(problem.carry),
              .out_strides = row_strides(problem.out),
              .num_rows = problem.rows(),
              .num_heads = problem.num_heads,
              .seqlen_q = problem.seqlen_q,
              .num_parts = problem.num_parts},
      shape_(launch_shape(spec.steps.front(), (problem.rows() + spec.config.block_rows() - 1) /
                                                  spec.config.block_rows())) {}

}  // namespace attnjit::launch
