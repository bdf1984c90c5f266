#include "launch/feature_values.hpp"

namespace attnjit::launch {
namespace {

kernel::OperandParams operand_params(const problem::Operand& operand, const Tensor& tensor,
                                     const problem::Problem& problem) {
  return {tensor.data,
          operand.batch_stride,
          operand.head_stride,
          operand.query_stride,
          operand.key_stride,
          problem.num_heads_q / operand.num_heads,
          problem.batch / operand.num_batches};
}

}  // namespace

void set_feature_values(const problem::Problem& problem, const ForwardArgs& args,
                        codegen::FeatureValues& values) {
  using problem::Extent;
  values.problem = &problem;
  values.seqlens = {args.seqlens_q, args.seqlens_kv};
  values.band = {problem.left, problem.right, problem.bottom_right};
  if (problem.bias.extent != Extent::kAbsent) {
    values.bias = operand_params(problem.bias, *args.bias, problem);
  }
  if (problem.mask.extent == Extent::kPerQuery) {
    values.row_mask = operand_params(problem.mask, *args.mask, problem);
  }
}

}  // namespace attnjit::launch
