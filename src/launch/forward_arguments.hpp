#pragma once
#include "attnjit/forward.hpp"
#include "attnjit/forward/combine_config.h"
#include "attnjit/forward/max_logits_config.h"
#include "attnjit/forward/params.h"
#include "attnjit/prepass/block_lists_config.h"
#include "attnjit/prepass/clear_count_config.h"
#include "attnjit/prepass/gather_keys_config.h"
#include "attnjit/prepass/mask_to_bits_config.h"
#include "attnjit/prepass/operand_ranges_config.h"
#include "attnjit/prepass/packed_order_config.h"
#include "launch/forward_plan_spec.hpp"
#include "launch/kernels/forward_kernels.hpp"
#include "launch/step_arguments.hpp"

namespace attnjit::launch {

/// Grids and kernel parameters of one forward call. Lives on the stack of the call: building it
/// allocates nothing.
class ForwardArguments : public StepArguments<ForwardPlanSpec, 1> {
 public:
  /// `workspace` holds `layout.bytes`, where `layout` is workspace_layout(spec, problem). `args`
  /// supplies the addresses; all else comes from `problem`. `maker` makes tensor maps for the
  /// kernels that want them, but for those that an earlier call of the problem has `kept`. Throws
  /// Error(kInvalidProblem) when a grid would be too large.
  ForwardArguments(const ForwardPlanSpec& spec, const problem::Problem& problem,
                   const ForwardArgs& args, const WorkspaceLayout& layout, void* workspace,
                   const TensorMapMaker& maker, const KeptMaps& kept = {});

  /// The parameter values, for tests that compare two calls.
  struct Values {
    kernel::ForwardWgmmaParams forward;  ///< of which other paths have the base alone
    kernel::ForwardSingleTileParams single_tile;
    kernel::ForwardSharedBiasParams shared_bias;
    codegen::FeatureValues features;
    kernel::MaskToBitsParams mask_to_bits{};
    // These three are set where the plan has their steps alone.
    kernel::BlockListsParams block_lists;
    kernel::GatherKeysParams gather_keys;
    kernel::OperandRangesParams operand_ranges;
    kernel::ClearCountParams clear_count{};
    kernel::PackedOrderParams packed_order{};
    kernel::ForwardCombineParams combine{};
    kernel::MaxLogitsParams max_logits{};
  };
  const Values& values() const { return values_; }

 private:
  void set_forward(const ForwardPlanSpec& spec, const problem::Problem& problem,
                   const ForwardArgs& args);
  void set_splits(const problem::Problem& problem, const WorkspaceLayout& layout,
                  std::byte* workspace);
  void set_maxima(const problem::Problem& problem, const ForwardArgs& args,
                  const WorkspaceLayout& layout, std::byte* workspace);
  void set_mask(const ForwardPlanSpec& spec, const problem::Problem& problem,
                const ForwardArgs& args, const WorkspaceLayout& layout, std::byte* workspace);
  void set_blocks(const problem::Problem& problem, const ForwardArgs& args,
                  const WorkspaceLayout& layout, std::byte* workspace);
  void set_selection(const ForwardPlanSpec& spec, const problem::Problem& problem,
                     const ForwardArgs& args, const WorkspaceLayout& layout, std::byte* workspace);
  void set_ranges(const ForwardPlanSpec& spec, const problem::Problem& problem,
                  const WorkspaceLayout& layout, std::byte* workspace);
  void set_order(const problem::Problem& problem, const WorkspaceLayout& layout,
                 kernel::int32 blocks, std::byte* workspace);
  void set_count(const ForwardPlanSpec& spec, kernel::uint32* work_taken);
  void share_out_planes(const ForwardPlanSpec& spec, const problem::Problem& problem);
  void list_parameters(const ForwardPlanSpec& spec);

  Values values_;
};

}  // namespace attnjit::launch
