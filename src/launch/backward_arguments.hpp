#pragma once
#include <cstddef>

#include "attnjit/backward.hpp"
#include "attnjit/backward/bias_sum_config.h"
#include "attnjit/backward/fragment_sum_config.h"
#include "attnjit/backward/params.h"
#include "attnjit/backward/preprocess_config.h"
#include "attnjit/backward/scatter_keys_config.h"
#include "attnjit/prepass/block_lists_config.h"
#include "attnjit/prepass/gather_keys_config.h"
#include "attnjit/prepass/mask_to_bits_config.h"
#include "attnjit/prepass/operand_ranges_config.h"
#include "attnjit/score/bias_grad_params.h"
#include "launch/backward_plan_spec.hpp"
#include "launch/dbias_partials.hpp"
#include "launch/kernels/backward_kernels.hpp"
#include "launch/step_arguments.hpp"

namespace attnjit::launch {

/// Grids and kernel parameters of one backward call. Lives on the stack of the call: building it
/// allocates nothing.
class BackwardArguments : public StepArguments<BackwardPlanSpec, 3> {
 public:
  /// `workspace` holds `layout.bytes`, where `layout` is workspace_layout(spec, problem). `args`
  /// supplies the addresses; all else comes from `problem`. Throws Error(kInvalidProblem) when a
  /// grid would be too large, and Error(kCuda) when the driver refuses a tensor map.
  BackwardArguments(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem,
                    const BackwardArgs& args, const BackwardLayout& layout, void* workspace,
                    const TensorMapMaker& maker);

  /// The parameter values.
  struct Values {
    kernel::DkvWgmmaParams dkv{};                  ///< of this kernel; mma takes the base alone
    kernel::BackwardSingleTileParams single_tile;  ///< the same, set on path single_tile alone
    kernel::DqWgmmaParams dq{};                    ///< of this kernel; mma takes the base alone
    kernel::BackwardParams dbias{};                ///< of this kernel
    kernel::BiasPlanes planes{};
    kernel::Grouped<kernel::BiasGradParams> dkv_dbias{};    ///< where that of dk and dv puts dS
    kernel::Grouped<kernel::BiasGradParams> dbias_dbias{};  ///< where the kernel of dbias does
    codegen::FeatureValues features;
    kernel::MaskToBitsParams mask_to_bits{};
    // These four are set where the plan has their steps alone.
    kernel::BlockListsParams block_lists;
    kernel::GatherKeysParams gather_keys;
    kernel::ScatterKeysParams scatter_keys;
    kernel::OperandRangesParams operand_ranges;
    kernel::BackwardPreprocessParams preprocess{};
    kernel::FragmentSumParams dq_sum{}, dk_sum{}, dv_sum{};
    kernel::Grouped<kernel::BiasSumParams> bias_sum{};
    kernel::BiasSumParams sink_sum{};
    // Set where the plan has these steps alone.
    kernel::BackwardParams operand;  ///< of the kernels of all sites
    std::array<kernel::OperandGradientParams, problem::kMaxGradientSites> sites;
    kernel::OperandSumParams operand_slices, operand_sum;
  };
  const Values& values() const { return values_; }

 private:
  void set_maps(const problem::BackwardProblem& problem, const BackwardArgs& args,
                const TensorMapMaker& maker);
  void set_scores(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_mask(const problem::Problem& problem, const BackwardArgs& args);
  void set_blocks(const problem::Problem& problem, const ForwardArgs& args);
  void set_selection(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_ranges(const problem::Problem& problem);
  void set_preprocess(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_sums(const problem::Problem& problem);
  void set_dbias(const problem::BackwardProblem& problem, const Tensor& dbias);
  void set_bias_sum(const problem::BackwardProblem& problem, const DbiasPartials& parts,
                    const Tensor& dbias);
  void set_single_tile(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_dsink(const problem::BackwardProblem& problem, const Tensor& dsink);
  void set_operand_gradients(const problem::BackwardProblem& problem, const BackwardArgs& args);
  void set_shapes(const problem::BackwardProblem& problem);
  void list_parameters();

  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace_) + offset);
  }

  const BackwardLayout& layout_;
  void* const workspace_;
  Values values_;
};

}  // namespace attnjit::launch
