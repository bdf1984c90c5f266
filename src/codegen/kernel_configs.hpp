#pragma once
#include <optional>

#include "attnjit/backward/bias_sum_config.h"
#include "attnjit/backward/fragment_sum_config.h"
#include "attnjit/backward/operand_sum_config.h"
#include "attnjit/backward/preprocess_config.h"
#include "attnjit/backward/scatter_keys_config.h"
#include "attnjit/forward/combine_config.h"
#include "attnjit/forward/max_logits_config.h"
#include "attnjit/forward/merge_lse_config.h"
#include "attnjit/prepass/block_lists_config.h"
#include "attnjit/prepass/clear_count_config.h"
#include "attnjit/prepass/gather_keys_config.h"
#include "attnjit/prepass/mask_to_bits_config.h"
#include "attnjit/prepass/operand_ranges_config.h"
#include "attnjit/prepass/packed_order_config.h"
#include "codegen/formula_ranges.hpp"
#include "codegen/kernels/main_kernels.hpp"
#include "problem/mask_problem.hpp"
#include "problem/merge_problem.hpp"

/// The template argument of each kernel beside the main ones, from a family and what was chosen for
/// it.
namespace attnjit::codegen {

/// The prepass that converts the mask to bits for a forward kernel; none where there is no mask
/// over keys.
std::optional<kernel::MaskToBitsConfig> mask_to_bits_config(const problem::Family& family);
/// The same that packs one for calls to come.
kernel::MaskToBitsConfig mask_to_bits_config(const problem::MaskKey& key);
/// The prepass that finds the ranges of operands of a keep expression; none where `axes` is empty.
std::optional<kernel::OperandRangesConfig> operand_ranges_config(
    const std::vector<RangedAxis>& axes);
/// The prepass that turns lists of blocks into operands of the keep expression; none without lists.
std::optional<kernel::BlockListsConfig> block_lists_config(const problem::Family& family);
/// The prepass that copies the keys that a call selects; none where it selects none.
std::optional<kernel::GatherKeysConfig> gather_keys_config(const problem::Family& family);
/// The prepass that clears the counter of work that a forward takes; none where it counts none, or
/// another prepass clears it.
std::optional<kernel::ClearCountConfig> clear_count_config(const ForwardFacts& forward,
                                                           bool has_prepass);
/// The kernel that adds up the gradients of operands.
kernel::OperandSumConfig operand_sum_config();
/// The kernel that orders the blocks of rows of packed sequences; none where the forward numbers
/// them itself.
std::optional<kernel::PackedOrderConfig> packed_order_config(const problem::Family& family,
                                                             const ForwardFacts& forward);
/// The kernel that adds up the splits of a forward.
kernel::ForwardCombineConfig forward_combine_config(const problem::Family& family);
/// The kernel that reduces the largest scores of rows; none where they are not wanted.
std::optional<kernel::MaxLogitsConfig> max_logits_config(const problem::Family& family);
kernel::MergeLseConfig merge_lse_config(const problem::MergeKey& key);

/// Of the kernel that adds up the gradient of a sink, if it is wanted.
std::optional<kernel::BiasSumConfig> sink_sum_config(const problem::BackwardFamily& family);

// The kernels of a backward.

/// The prepass that converts the mask to bits; none where there is no mask over keys, or a prepared
/// one.
std::optional<kernel::MaskToBitsConfig> mask_to_bits_config(const problem::BackwardFamily& family,
                                                            const BackwardTunables& tunables,
                                                            const DkvFacts& dkv);
/// The kernel that writes dk and dv of all keys from those of the selected ones; none where the
/// call selects none.
std::optional<kernel::ScatterKeysConfig> scatter_keys_config(const problem::BackwardFamily& family);
kernel::BackwardPreprocessConfig preprocess_config(const problem::BackwardFamily& family,
                                                   const BackwardTunables& tunables,
                                                   const DkvFacts& dkv);
/// `stored`: rows without a key have no sums.
kernel::FragmentSumConfig fragment_sum_config(const problem::BackwardFamily& family, int columns,
                                              bool stored);
/// None where dbias is complete without a last step.
std::optional<kernel::BiasSumConfig> bias_sum_config(const problem::BackwardFamily& family,
                                                     DbiasMethod method);

}  // namespace attnjit::codegen
