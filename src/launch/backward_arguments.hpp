#pragma once
#include <cstddef>

#include "attnjit/backward.hpp"
#include "attnjit/backward/bias_sum_config.h"
#include "attnjit/backward/fragment_sum_config.h"
#include "attnjit/backward/params.h"
#include "attnjit/backward/preprocess_config.h"
#include "attnjit/prepass/mask_pack_config.h"
#include "attnjit/score/bias_grad_params.h"
#include "cuda/launch.hpp"
#include "launch/backward_plan_spec.hpp"
#include "launch/tensor_maps.hpp"

namespace attnjit::launch {

/// Grids and kernel parameters of one backward call. Lives on the stack of the call: building it
/// allocates nothing.
class BackwardArguments {
 public:
  /// `workspace` holds `layout.bytes`, where `layout` is workspace_layout(spec, problem). `args`
  /// supplies the addresses; all else comes from `problem`. Throws Error(kInvalidProblem) when a
  /// grid would be too large, and Error(kCuda) when the driver refuses a tensor map.
  BackwardArguments(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem,
                    const BackwardArgs& args, const BackwardLayout& layout, void* workspace,
                    const TensorMapMaker& maker);
  BackwardArguments(const BackwardArguments&) = delete;
  BackwardArguments& operator=(const BackwardArguments&) = delete;

  static constexpr std::size_t kKinds = 10;  ///< of BackwardStep
  /// Whether a step has anything to do.
  bool runs(BackwardStep step) const { return shapes_[index(step)].grid[0] != 0; }
  const cuda::LaunchShape& shape(BackwardStep step) const { return shapes_[index(step)]; }
  /// One pointer per kernel parameter of a step.
  void** parameters(BackwardStep step) { return lists_[index(step)]; }

  // The same by the index of a step in the plan.
  bool runs(std::size_t step) const { return runs(spec_.steps[step].kind); }
  const cuda::LaunchShape& shape(std::size_t step) const { return shape(spec_.steps[step].kind); }
  void** parameters(std::size_t step) { return parameters(spec_.steps[step].kind); }

  /// The parameter values.
  struct Values {
    kernel::BackwardWgmmaParams dkv{};   ///< of this kernel; mma takes the base alone
    kernel::BackwardDqWgmmaParams dq{};  ///< of this kernel; mma takes the base alone
    kernel::BackwardParams dbias{};      ///< of this kernel
    kernel::BiasPlanes planes{};
    kernel::Grouped<kernel::BiasGradParams> dkv_dbias{};    ///< where that of dk and dv puts dS
    kernel::Grouped<kernel::BiasGradParams> dbias_dbias{};  ///< where the kernel of dbias does
    codegen::FeatureValues features{};
    kernel::MaskPackParams mask_pack{};
    kernel::BackwardPreprocessParams preprocess{};
    kernel::FragmentSumParams dq_sum{}, dk_sum{}, dv_sum{};
    kernel::Grouped<kernel::BiasSumParams> bias_sum{};
    kernel::BiasSumParams sink_sum{};
  };
  const Values& values() const { return values_; }

 private:
  static constexpr std::size_t index(BackwardStep step) { return static_cast<std::size_t>(step); }

  void set_scores(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_mask(const problem::Problem& problem, const BackwardArgs& args);
  void set_preprocess(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_sums(const problem::Problem& problem);
  void set_dbias(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_dsink(const problem::BackwardProblem& problem, const Tensor& dsink);
  void set_shapes(const problem::BackwardProblem& problem);
  void set_shape(BackwardStep step, std::int64_t blocks);
  void list_parameters();

  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace_) + offset);
  }

  const BackwardPlanSpec& spec_;
  const BackwardLayout& layout_;
  void* const workspace_;
  Values values_;
  cuda::LaunchShape shapes_[kKinds];
  /// BackwardParams, planes, dbias, and those of the features.
  void* lists_[kKinds][3 + codegen::kNumFeatures] = {};
};

}  // namespace attnjit::launch
