#pragma once
#include <memory>
#include <type_traits>
#include <vector>

#include "cuda/library.hpp"
#include "launch/backward_arguments.hpp"
#include "launch/forward_arguments.hpp"
#include "launch/mask_plan.hpp"
#include "launch/merge_plan.hpp"
#include "problem/plan_key.hpp"

namespace attnjit::launch {

/// The types that a pass goes through, from a call to its kernels.
struct ForwardPass {
  static constexpr const char* kName = "forward";
  static constexpr bool kGradients = false;  ///< whether calls may ask for those of operands
  using Args = ForwardArgs;
  using Problem = problem::Problem;
  using Key = problem::PlanKey;
  using Tunables = codegen::ForwardTunables;
  using Spec = ForwardPlanSpec;
  using Layout = WorkspaceLayout;
  using Kept = KeptMaps;
  static ForwardArguments arguments(const Spec& spec, const Problem& problem, const Args& args,
                                    const Layout& layout, void* workspace,
                                    const TensorMapMaker& maker, const Kept& kept = {}) {
    return {spec, problem, args, layout, workspace, maker, kept};
  }
  static Kept keep(const Spec& spec, const Problem& problem, const Args& args,
                   const TensorMapMaker& maker) {
    return std::visit([&](const auto& config) { return keep_maps(config, problem, args, maker); },
                      spec.kernel);
  }
};
struct BackwardPass {
  static constexpr const char* kName = "backward";
  static constexpr bool kGradients = true;
  using Args = BackwardArgs;
  using Problem = problem::BackwardProblem;
  using Key = problem::BackwardPlanKey;
  using Tunables = codegen::BackwardTunables;
  using Spec = BackwardPlanSpec;
  using Layout = BackwardLayout;
  using Kept = NoMaps;
  static BackwardArguments arguments(const Spec& spec, const Problem& problem, const Args& args,
                                     const Layout& layout, void* workspace,
                                     const TensorMapMaker& maker, const Kept& = {}) {
    return {spec, problem, args, layout, workspace, maker};
  }
  static Kept keep(const Spec&, const Problem&, const Args&, const TensorMapMaker&) { return {}; }
};
/// The pass of a problem that is tuned.
template <class Problem>
using PassFor =
    std::conditional_t<std::is_same_v<Problem, problem::Problem>, ForwardPass, BackwardPass>;

/// A forward, backward or merge whose kernels are loaded into one context. Immutable but for the
/// tensor maps that it keeps; any thread may launch it, on any stream of that context.
template <class Pass>
class Plan {
 public:
  /// `libraries` holds the cubin of each step, in order. Loads the kernels into the current
  /// context.
  Plan(typename Pass::Spec spec, std::vector<std::unique_ptr<cuda::Library>> libraries);

  const typename Pass::Spec& spec() const { return spec_; }

  /// Enqueues all steps that have something to do. `layout` and `workspace` as for
  /// Pass::arguments(), `kept` as keep() gave it for the same problem.
  void launch(const cuda::Driver& driver, const typename Pass::Problem& problem,
              const typename Pass::Args& args, const typename Pass::Layout& layout, void* workspace,
              CUstream stream, const typename Pass::Kept& kept = {}) const;

  /// What later calls of the same problem start from.
  typename Pass::Kept keep(const cuda::Driver& driver, const typename Pass::Problem& problem,
                           const typename Pass::Args& args) const;

 private:
  TensorMapMaker maker(const cuda::Driver& driver) const;

  typename Pass::Spec spec_;
  std::vector<std::unique_ptr<cuda::Library>> libraries_;
  std::vector<cuda::Kernel> kernels_;
  mutable TensorMapTable maps_;
};

using ForwardPlan = Plan<ForwardPass>;
using BackwardPlan = Plan<BackwardPass>;
using MergePlan = Plan<MergePass>;
using MaskPlan = Plan<MaskPass>;

}  // namespace attnjit::launch
