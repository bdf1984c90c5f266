#pragma once
#include <cstddef>
#include <vector>

#include "attnjit/forward/merge_lse_config.h"
#include "cuda/launch.hpp"
#include "launch/forward_plan_spec.hpp"
#include "launch/grid.hpp"
#include "launch/tensor_map_table.hpp"
#include "problem/merge_problem.hpp"

namespace attnjit::launch {

/// The kernel of a merge; a list of one, as plans have it.
struct MergePlanSpec {
  kernel::MergeLseConfig config{};
  std::vector<StepSpec> steps;
};
MergePlanSpec make_merge_plan_spec(const problem::MergeKey& key,
                                   const codegen::TemplateSet& templates);

/// Grid and parameters of one merge. Throws Error(kInvalidProblem) when the grid would be too
/// large.
class MergeArguments {
 public:
  MergeArguments(const MergePlanSpec& spec, const problem::MergeProblem& problem,
                 const MergeLseArgs& args);
  MergeArguments(const MergeArguments&) = delete;
  MergeArguments& operator=(const MergeArguments&) = delete;

  bool runs(std::size_t) const { return true; }
  const cuda::LaunchShape& shape(std::size_t) const { return shape_; }
  void** parameters(std::size_t) { return list_; }

 private:
  kernel::MergeLseParams params_;
  cuda::LaunchShape shape_;
  void* list_[1] = {&params_};
};

/// A merge hands nothing from step to step.
struct NoWorkspace {
  std::size_t bytes = 0;
};

/// The types of a merge, as launch::ForwardPass names those of a forward.
struct MergePass {
  static constexpr const char* kName = "merge_lse";
  using Args = MergeLseArgs;
  using Problem = problem::MergeProblem;
  using Key = problem::MergeKey;
  using Spec = MergePlanSpec;
  using Layout = NoWorkspace;
  using Kept = NoMaps;
  static Spec spec(const Key& key, const codegen::TemplateSet& templates) {
    return make_merge_plan_spec(key, templates);
  }
  static MergeArguments arguments(const Spec& spec, const Problem& problem, const Args& args,
                                  const Layout&, void*, const TensorMapMaker&, const Kept& = {}) {
    return {spec, problem, args};
  }
  static Kept keep(const Spec&, const Problem&, const Args&, const TensorMapMaker&) { return {}; }
};

}  // namespace attnjit::launch
