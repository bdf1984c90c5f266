#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "launch/forward_plan_spec.hpp"
#include "launch/operand_gradients.hpp"

namespace attnjit::launch {

/// The kernels of a backward, in the order in which they run.
enum class BackwardStep {
  kMaskToBits,     ///< where there is a mask over keys that is not prepared
  kBlockLists,     ///< where the call has lists of blocks
  kGatherKeys,     ///< where the call selects keys
  kOperandRanges,  ///< where a keep expression reads ints or bools by rows or by keys
  kPreprocess,     ///< rows, and sums set to zero; not where kDkv computes delta
  kDkv,            ///< dk and dv, and what else the tunables give it
  kDq,             ///< dq, where it has a kernel of its own
  kDqSum,          ///< rounds dq, where it is added up
  kDkSum,          ///< rounds dk; runs where queries are split
  kDvSum,          ///< rounds dv; runs where queries are split
  kDbias,          ///< dbias, where it has a kernel of its own
  kBiasSum,        ///< reduces and rounds dbias; beside kDbias it runs where that has shares
  kSinkSum,        ///< adds up dsink
  kOperandSite,    ///< what a read of an operand adds to its gradient; the others follow. Not
                   ///< where kDkv has its sums
  kOperandSlices = kOperandSite + problem::kMaxGradientSites,  ///< adds up slices of long lists
  kOperandSum,                                                 ///< gradients of operands
  kScatterKeys,  ///< dk and dv of all keys, where the call selects some
};
/// The step of a read of an operand, of spec.sites.
constexpr BackwardStep operand_site_step(std::size_t site) {
  return static_cast<BackwardStep>(static_cast<std::size_t>(BackwardStep::kOperandSite) + site);
}

/// The backward as an ordered list of kernels. Needs no GPU.
struct BackwardPlanSpec {
  using Kind = BackwardStep;
  static constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kScatterKeys) + 1;

  problem::BackwardFamily family;
  codegen::BackwardTunables tunables;
  std::vector<const codegen::Feature*> features;
  codegen::DkvKernel dkv_kernel;  ///< of dk and dv
  codegen::DkvFacts dkv;          ///< of that
  // Where these have kernels of their own.
  std::optional<codegen::DqKernel> dq_kernel;
  std::optional<codegen::DbiasKernel> dbias_kernel;
  std::optional<kernel::MaskToBitsConfig> mask_to_bits;
  std::optional<kernel::BlockListsConfig> block_lists;
  std::optional<kernel::GatherKeysConfig> gather_keys;
  std::optional<kernel::ScatterKeysConfig> scatter_keys;
  std::vector<codegen::RangedAxis> ranged_axes;  ///< of the operands of a keep expression
  std::optional<kernel::OperandRangesConfig> operand_ranges;
  std::optional<kernel::BiasSumConfig> bias_sum, sink_sum;
  codegen::OperandSites sites;                             ///< of gradients of operands
  std::optional<kernel::BackwardMmaConfig> operand_sites;  ///< of their kernels
  std::optional<kernel::OperandSumConfig> operand_sum;
  int operand_slots = 0;  ///< thread blocks of operand_sites, as block_slots
  int sm_count = 0;       ///< of the device
  int block_slots =
      0;  ///< thread blocks of the kernel of dk and dv that the device holds at a time
  int dbias_slots = 0;  ///< thread blocks of the kernel of dbias, as block_slots
  Steps<BackwardStep> steps;

  bool has_dq_kernel() const { return dq_kernel.has_value(); }
  /// Whether thread blocks of the kernel of dk and dv add up dq of a kv head, each in memory of its
  /// own.
  bool owns_kv_head() const {
    return tunables.dq_method == codegen::DqMethod::kOwnKvHead && !dkv.single_tile;
  }
  /// Whether dq is added up in fp32 by the kernel of dk and dv.
  bool adds_dq() const { return !has_dq_kernel() && !owns_kv_head() && !dkv.single_tile; }
  /// The kernel of dk and dv.
  std::size_t main_step() const { return steps.find(BackwardStep::kDkv); }
};

inline std::size_t main_step(const BackwardPlanSpec& spec) { return spec.main_step(); }

/// `arch` supplies the number of SMs. `tunables` are fit for it, see codegen::why_unfit().
BackwardPlanSpec make_backward_plan_spec(const problem::BackwardFamily& family,
                                         const codegen::BackwardTunables& tunables,
                                         const codegen::Arch& arch,
                                         const codegen::TemplateSet& templates);

/// Tiles and thread blocks of a backward.
struct BackwardGrid {
  std::int32_t q_tiles = 0, kv_tiles = 0;  ///< of the kernel of dk and dv
  std::int64_t kv_planes = 0;              ///< kv heads of all batch elements
  std::int32_t splits = 1;                 ///< shares of a key tile's queries
  std::int64_t dkv_blocks = 0;             ///< thread blocks of that kernel
  std::int64_t section_planes = 1;         ///< kv heads whose tiles alternate
  bool last_keys_first = false;            ///< thread blocks with the last keys begin first
  bool last_queries_first = false;         ///< each begins with the last queries, path wgmma
  std::int32_t heads_abreast = 1;          ///< query heads whose tiles alternate there
  std::int64_t q_planes = 0;               ///< query heads of all batch elements
  std::int32_t row_blocks = 0;             ///< of kRowBlock queries, of a plane
  /// Sections that the kernel of dk and dv sets sums of dq to zero before other thread blocks add
  /// to them; 0 where all of them are zeros before.
  std::int32_t zeros_ahead = 0;
  /// Of the batch elements and heads that a plane of dbias sums, in the kernel of dbias or on path
  /// single_tile, there of any that thread blocks walk over; each has sums of its own where there
  /// are several.
  std::int32_t dbias_shares = 1;
  /// Of a plane of dbias while it is added up: whole fragments of 16 queries by 32 keys, and whole
  /// tiles on path wgmma.
  std::int64_t dbias_queries = 0, dbias_keys = 0;
  std::int32_t padded_rows() const { return row_blocks * kernel::kRowBlock; }
  std::int64_t rows() const { return q_planes * padded_rows(); }  ///< of all planes
};
/// Whether batch elements of a head follow each other, for they share a bias.
bool batch_fastest(const problem::Problem& problem);
/// Tiles of `size` of the rows or keys of a plane, which packed sequences share.
std::int32_t num_tiles(const problem::Problem& problem, std::int32_t rows, int size);
BackwardGrid backward_grid(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem);

/// The places of what the steps hand to each other, as byte offsets into one workspace that is
/// aligned to kWorkspaceAlignment. At most, padding to that alignment apart,
///   4 (B Hq ceil64(Lq) (D + 5) + (split: B Hkv ceil64(Lk) (D + Dv)) + numel(dbias)
///      + (dbias over keys alone: B Hq Lk)) bytes,
/// where D and Dv count whole groups of 8 columns, numel(dbias) whole fragments of 16 queries by 32
/// keys where planes are reduced, and of a mask over keys that is not prepared a
/// quarter of its bytes, of keys up to a multiple of 128 and queries up to one of 64, and a byte
/// per 64 x 64 elements: each of the two orders of its bits takes an eighth, where kernels read it.
/// Path wgmma has 8 instead of the 4, 9 where thread blocks add to dq in order, and whole tiles of
/// block_q queries instead of ceil64(Lq), in a dbias as well, beside whole tiles of keys; of a
/// dbias that is kept per plane it has twice the elements, and a byte per tile. The kernel of dbias
/// takes none of these, but tiles of fp32 for at most four times as many thread blocks as the
/// device holds, and so does path single_tile. Gradients of operands take
/// 4.25 + 4 (1 + B Hq / planes) bytes for each sum of a row, a key, a diagonal or an indexed pair,
/// and 4 bytes for each element where pairs or atomics are. Selected keys take
/// 4 B Hkv W (D + Dv + 1) + 4 B. Packed sequences have Tq + 64 (B + 1) rows in place of
/// B ceil64(Lq), 64 more with tiles of 128 queries, and the keys of dbias in place of Lk.
struct BackwardLayout {
  BackwardGrid grid;  ///< of the call that it is for

  // Scratch that kernels write before they read it.
  std::size_t lse = 0, delta = 0, live = 0;  ///< GradientRows
  std::size_t row_bf16x3 = 0;                ///< of path wgmma
  std::size_t ds_rows = 0;                   ///< where dbias does not vary over keys
  std::size_t dsink_rows = 0;                ///< where dsink is wanted
  std::size_t mask = 0;                      ///< as bits, see BitMaskLayout
  std::size_t block_lists = 0;               ///< as bytes, see BlockListsLayout
  std::size_t selection = 0;                 ///< of keys, see KeySelectionLayout
  std::size_t operand_ranges = 0;            ///< of the operands of a keep expression
  std::size_t dbias_partials = 0;  ///< of planes or shares kept apart; else one of the sums
  /// Of spec.sites; lists are scratch, other sums are among those below.
  std::array<SiteLayout, problem::kMaxGradientSites> sites;
  std::array<SliceLayout, problem::kMaxOperandGradients> slices;  ///< of gradients of operands

  // Sums and counts that are set to zero before the first kernel.
  std::size_t sums = 0;       ///< where they begin
  std::size_t sum_bytes = 0;  ///< of dq those of the first sections alone, see BackwardGrid
  std::size_t dk_sum = 0, dv_sum = 0;
  std::size_t dbias_stored = 0;   ///< StoredTiles where planes are kept apart
  std::size_t dq_semaphores = 0;  ///< where thread blocks add to dq in order
  std::size_t work_taken = 0;     ///< of path wgmma where thread blocks share out tiles
  std::size_t zeroed = 0;         ///< of path wgmma where that sets sums to zero
  std::size_t dq_sum = 0;         ///< the last; scratch where the first keys store it

  std::size_t bytes = 0;  ///< total
};

/// A warp's fragment of dS where it is added up, see score/bias_grad.cuh.
inline constexpr int kBiasFragmentQueries = 16, kBiasFragmentKeys = 32;

/// Elements of a row of dS where planes of it, in 16 bits, or shares of its sums, in fp32, are kept
/// apart: rows are aligned.
std::int64_t dbias_partial_keys(const problem::BackwardProblem& problem);

/// Batch elements whose sums of dS over queries are kept apart: packed keys are one row.
std::int64_t dbias_partial_batch(const problem::BackwardProblem& problem);

/// The layout of spec.sites.list[number], without offsets.
SiteLayout site_layout_of(const BackwardPlanSpec& spec, std::size_t number,
                          const problem::BackwardProblem& problem);

BackwardLayout workspace_layout(const BackwardPlanSpec& spec,
                                const problem::BackwardProblem& problem);

}  // namespace attnjit::launch
