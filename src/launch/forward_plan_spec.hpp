#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "codegen/features.hpp"
#include "codegen/render.hpp"
#include "launch/step_spec.hpp"

namespace attnjit::launch {

/// The kernels of a forward, in the order in which they run.
enum class ForwardStep {
  kMaskToBits,     ///< where there is a mask over keys that is neither prepared nor read in place
  kBlockLists,     ///< where the call has lists of blocks
  kGatherKeys,     ///< where the call selects keys
  kOperandRanges,  ///< where a keep expression reads ints or bools by rows or by keys
  kClearCount,     ///< where thread blocks take work from a counter and no other prepass clears it
  kPackedOrder,    ///< orders the blocks of rows of packed sequences, for a persistent kernel
  kForward,        ///< attn_fwd
  kCombine,        ///< runs where keys are split
  kMaxLogits,      ///< where the largest scores are wanted; runs for those of heads
};

/// The forward as an ordered list of kernels. Needs no GPU.
struct ForwardPlanSpec {
  using Kind = ForwardStep;
  static constexpr std::size_t kKinds = 9;

  problem::Family family;
  codegen::ForwardTunables tunables;
  std::vector<const codegen::Feature*> features;
  codegen::ForwardKernel kernel;  ///< attn_fwd
  codegen::ForwardFacts facts;    ///< of that
  std::optional<kernel::MaskToBitsConfig> mask_to_bits;
  std::optional<kernel::BlockListsConfig> block_lists;
  std::optional<kernel::GatherKeysConfig> gather_keys;
  std::vector<codegen::RangedAxis> ranged_axes;  ///< of the operands of a keep expression
  std::optional<kernel::OperandRangesConfig> operand_ranges;
  std::optional<kernel::ClearCountConfig> clear_count;
  std::optional<kernel::PackedOrderConfig> packed_order;
  kernel::ForwardCombineConfig combine{};
  std::optional<kernel::MaxLogitsConfig> max_logits;
  int block_slots = 0;  ///< thread blocks of attn_fwd that the device holds at a time
  Steps<ForwardStep> steps;

  /// Whether thread blocks take blocks of rows, other than of packed sequences, from a counter.
  bool counts_work() const { return facts.plans_work && !packed_order; }
  /// The attention kernel itself.
  std::size_t main_step() const { return steps.find(ForwardStep::kForward); }
};

inline std::size_t main_step(const ForwardPlanSpec& spec) { return spec.main_step(); }

/// `arch` supplies the number of SMs. `tunables` are fit for it, see codegen::why_unfit().
ForwardPlanSpec make_forward_plan_spec(const problem::Family& family,
                                       const codegen::ForwardTunables& tunables,
                                       const codegen::Arch& arch,
                                       const codegen::TemplateSet& templates);

/// Thread blocks of attn_fwd, and into how many shares the keys of each row tile are split.
struct ForwardGrid {
  std::int32_t q_tiles = 0;  ///< of a plane, which packed sequences share
  std::int64_t planes = 0;   ///< heads, or kv heads with pack_gqa, of all batches
  std::int32_t splits = 1;
  std::int32_t section_planes = 1;  ///< planes whose row tiles alternate
  std::int32_t sections = 1;        ///< of kernel::PackedWork, at most
  bool falling = false;             ///< a plane's row tiles cost the less the later they come

  std::int64_t blocks() const { return planes * q_tiles * splits; }
};
ForwardGrid forward_grid(const ForwardPlanSpec& spec, const problem::Problem& problem);

/// The places of what a plan's steps hand to each other, as byte offsets into one workspace that
/// is aligned to kWorkspaceAlignment.
struct WorkspaceLayout {
  ForwardGrid grid;                              ///< of the call that it is for
  std::size_t mask = 0;                          ///< as bits, see BitMaskLayout
  std::size_t block_lists = 0;                   ///< as bytes, see BlockListsLayout
  std::size_t selection = 0;                     ///< of keys, see KeySelectionLayout
  std::size_t operand_ranges = 0;                ///< of the operands of a keep expression
  std::size_t work_taken = 0;                    ///< the counter of ForwardPlanSpec::counts_work
  std::size_t order = 0, order_counts = 0;       ///< of the blocks of rows of packed sequences
  std::size_t partial_out = 0, partial_lse = 0;  ///< of the splits
  std::size_t partial_row_max = 0;               ///< where rows' maxima are wanted
  std::size_t row_max = 0;                       ///< where those of heads are wanted alone
  std::size_t bytes = 0;                         ///< total
};

WorkspaceLayout workspace_layout(const ForwardPlanSpec& spec, const problem::Problem& problem);

}  // namespace attnjit::launch
