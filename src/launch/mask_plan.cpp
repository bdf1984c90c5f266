#include "launch/mask_plan.hpp"

#include "launch/grid.hpp"
#include "problem/canonical_operand.hpp"

namespace attnjit::launch {
namespace {

kernel::MaskToBitsParams params_of(const problem::MaskProblem& problem,
                                   const PrepareMaskArgs& args) {
  return mask_to_bits_params(problem.mask, args.mask.data, prepared_layout(problem), args.memory);
}

}  // namespace

BitMaskLayout prepared_layout(const problem::MaskProblem& problem) {
  return {MaskTiles(problem.mask), {.by_keys = problem.key.by_keys}};
}
BitMaskLayout prepared_layout(const PreparedMask& mask) {
  const Tensor dense = Tensor::contiguous(nullptr, DType::kBool, mask.shape);
  const problem::Operand bits = problem::canonical_operand(dense);
  const bool by_keys = bits.extent == problem::Extent::kPerPair && mask.for_backward;
  return {MaskTiles(bits), {.by_keys = by_keys}};
}
BitMaskLayout prepared_layout(const problem::Problem& problem, const PreparedMask& mask) {
  const bool by_keys = problem.mask.extent == problem::Extent::kPerPair && mask.for_backward;
  return {MaskTiles(problem.mask), {.by_keys = by_keys}};
}

MaskPlanSpec make_mask_plan_spec(const problem::MaskKey& key,
                                 const codegen::TemplateSet& templates) {
  const kernel::MaskToBitsConfig config = codegen::mask_to_bits_config(key);
  MaskPlanSpec spec;
  spec.steps.push_back(
      make_step(codegen::render_mask_to_bits(config, templates), config, config.shared_bytes()));
  return spec;
}

MaskArguments::MaskArguments(const MaskPlanSpec& spec, const problem::MaskProblem& problem,
                             const PrepareMaskArgs& args)
    : params_(params_of(problem, args)),
      shape_(launch_shape(spec.steps.front(), mask_to_bits_blocks(problem.mask))) {}

}  // namespace attnjit::launch
