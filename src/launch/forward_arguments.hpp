#pragma once
#include "attnjit/forward.hpp"
#include "attnjit/forward/combine_config.h"
#include "attnjit/forward/max_logits_config.h"
#include "attnjit/forward/params.h"
#include "attnjit/prepass/mask_pack_config.h"
#include "attnjit/prepass/packed_order_config.h"
#include "cuda/launch.hpp"
#include "launch/forward_plan_spec.hpp"
#include "launch/kept_maps.hpp"

namespace attnjit::launch {

/// Grids and kernel parameters of one forward call. Lives on the stack of the call: building it
/// allocates nothing.
class ForwardArguments {
 public:
  /// `workspace` holds `layout.bytes`, where `layout` is workspace_layout(spec, problem). `args`
  /// supplies the addresses; all else comes from `problem`. `maker` makes tensor maps for the
  /// kernels that want them, but for those that an earlier call of the problem has `kept`. Throws
  /// Error(kInvalidProblem) when a grid would be too large.
  ForwardArguments(const ForwardPlanSpec& spec, const problem::Problem& problem,
                   const ForwardArgs& args, const WorkspaceLayout& layout, void* workspace,
                   const TensorMapMaker& maker, const KeptMaps& kept = {});
  ForwardArguments(const ForwardArguments&) = delete;
  ForwardArguments& operator=(const ForwardArguments&) = delete;

  /// Whether step `index` has anything to do.
  bool runs(std::size_t index) const { return shapes_[index].grid[0] != 0; }
  const cuda::LaunchShape& shape(std::size_t index) const { return shapes_[index]; }
  /// One pointer per kernel parameter of step `index`.
  void** parameters(std::size_t index) { return lists_[index]; }

  /// The parameter values, for tests that compare two calls.
  struct Values {
    kernel::ForwardWgmmaParams forward;  ///< of which other paths have the base alone
    codegen::FeatureValues features{};
    kernel::MaskPackParams mask_pack{};
    kernel::PackedOrderParams packed_order{};
    kernel::ForwardCombineParams combine{};
    kernel::MaxLogitsParams max_logits{};
  };
  const Values& values() const { return values_; }

 private:
  void set_forward(const ForwardPlanSpec& spec, const problem::Problem& problem,
                   const ForwardArgs& args);
  void set_splits(const ForwardPlanSpec& spec, const problem::Problem& problem,
                  const WorkspaceLayout& layout, std::byte* workspace);
  void set_maxima(const ForwardPlanSpec& spec, const problem::Problem& problem,
                  const ForwardArgs& args, const WorkspaceLayout& layout, std::byte* workspace);
  void set_mask(const ForwardPlanSpec& spec, const problem::Problem& problem,
                const ForwardArgs& args, const WorkspaceLayout& layout, std::byte* workspace);
  void set_order(const ForwardPlanSpec& spec, const problem::Problem& problem,
                 const WorkspaceLayout& layout, std::byte* workspace);
  void list_parameters(const ForwardPlanSpec& spec);

  static constexpr cuda::LaunchShape kIdle{{0, 1, 1}};  // of a step that is not launched

  Values values_;
  cuda::LaunchShape shapes_[5] = {kIdle, kIdle, kIdle, kIdle, kIdle};
  std::size_t forward_step_;
  void** lists_[5] = {};                                // of each step
  void* forward_list_[1 + codegen::kNumFeatures] = {};  // ForwardParams, and those of the features
  void* pack_list_[1] = {};
  void* order_list_[1] = {};
  void* combine_list_[1] = {};
  void* max_logits_list_[1] = {};
};

}  // namespace attnjit::launch
