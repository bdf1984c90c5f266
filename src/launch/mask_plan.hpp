#pragma once
#include <cstddef>
#include <vector>

#include "attnjit/prepared_mask.hpp"
#include "cuda/launch.hpp"
#include "launch/bit_mask.hpp"
#include "launch/merge_plan.hpp"
#include "problem/mask_problem.hpp"

namespace attnjit::launch {

/// A prepared mask in its memory: that of `problem`, or one that calls are given.
BitMaskLayout prepared_layout(const problem::MaskProblem& problem);
BitMaskLayout prepared_layout(const PreparedMask& mask);
BitMaskLayout prepared_layout(const problem::Problem& problem, const PreparedMask& mask);

/// The kernel that prepares a mask; a list of one, as plans have it.
struct MaskPlanSpec {
  std::vector<StepSpec> steps;
};
MaskPlanSpec make_mask_plan_spec(const problem::MaskKey& key,
                                 const codegen::TemplateSet& templates);

/// Grid and parameters that prepare one mask. Throws Error(kInvalidProblem) when the grid would be
/// too large.
class MaskArguments {
 public:
  MaskArguments(const MaskPlanSpec& spec, const problem::MaskProblem& problem,
                const PrepareMaskArgs& args);
  MaskArguments(const MaskArguments&) = delete;
  MaskArguments& operator=(const MaskArguments&) = delete;

  bool runs(std::size_t) const { return true; }
  const cuda::LaunchShape& shape(std::size_t) const { return shape_; }
  void** parameters(std::size_t) { return list_; }

 private:
  kernel::MaskToBitsParams params_;
  cuda::LaunchShape shape_;
  void* list_[1] = {&params_};
};

/// The types of a prepared mask, as launch::ForwardPass names those of a forward.
struct MaskPass {
  static constexpr const char* kName = "prepare_mask";
  using Args = PrepareMaskArgs;
  using Problem = problem::MaskProblem;
  using Key = problem::MaskKey;
  using Spec = MaskPlanSpec;
  using Layout = NoWorkspace;
  using Kept = NoMaps;
  static Spec spec(const Key& key, const codegen::TemplateSet& templates) {
    return make_mask_plan_spec(key, templates);
  }
  static MaskArguments arguments(const Spec& spec, const Problem& problem, const Args& args,
                                 const Layout&, void*, const TensorMapMaker&, const Kept& = {}) {
    return {spec, problem, args};
  }
  static Kept keep(const Spec&, const Problem&, const Args&, const TensorMapMaker&) { return {}; }
};

}  // namespace attnjit::launch
