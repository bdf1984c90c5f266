#include "launch/forward_arguments.hpp"

#include <algorithm>
#include <optional>

#include "launch/block_lists.hpp"
#include "launch/feature_values.hpp"
#include "launch/grid.hpp"
#include "launch/key_selection.hpp"
#include "launch/mask_plan.hpp"
#include "launch/operand_ranges.hpp"

namespace attnjit::launch {
namespace {

// Thread blocks that stay on their SMs share the blocks of rows. Elements of the batch
// that share a bias over queries and keys follow each other, so that they may find it in L2.
void share_out_work(const problem::Problem& problem, const ForwardGrid& grid, kernel::int32 blocks,
                    kernel::ForwardWgmmaParams& params) {
  if (problem.packed) return;  // by kernel::PackedWork
  const auto planes = static_cast<kernel::int32>(grid.planes);
  const kernel::int32 tiles = grid.q_tiles * grid.splits;
  const bool shares_bias =
      problem.bias.extent == problem::Extent::kPerPair && problem.bias.num_batches < problem.batch;
  params.schedule = {
      .num_blocks = blocks,
      .num_planes = planes,
      .tiles_per_plane = tiles,
      .paired_rounds = grid.falling ? kernel::paired_rounds(blocks, planes, tiles) : -1,
      .batches = shares_bias ? problem.batch : 1};
}

// Batch elements that share a plane of the bias follow each other.
kernel::PlaneOrder plane_order(const problem::Problem& problem) {
  const bool has_bias = problem.bias.extent != problem::Extent::kAbsent;
  const std::int32_t planes = has_bias ? problem.bias.num_batches : 1;
  return {.batch = problem.batch,
          .sharers = problem.batch / planes,
          .run = problem.run_length(planes, problem.bias.cycle),
          .cycle = batch_cycle(problem.bias.cycle)};
}

kernel::PackedCosts packed_costs(const problem::Problem& p, const kernel::BandParams& band) {
  const auto bound = static_cast<kernel::int32>(problem::kMaxSeqlen);
  const bool bounded = p.bounded_left && p.bounded_right;
  return {.rising = p.bounded_right || problem::rows_rise(p),
          .bottom_right = band.bottom_right,
          .ahead = p.bounded_right ? band.right : 0,
          .widest = bounded ? std::clamp(band.left + band.right + 1, 0, bound) : bound};
}

}  // namespace

ForwardArguments::ForwardArguments(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                   const ForwardArgs& given, const WorkspaceLayout& layout,
                                   void* workspace, const TensorMapMaker& maker,
                                   const KeptMaps& kept)
    : StepArguments(spec) {
  auto* const base = static_cast<std::byte*>(workspace);
  std::optional<ForwardArgs> over;
  if (spec.gather_keys) {
    over = over_selected(given, base + layout.selection,
                         key_selection_layout(problem, codegen::Pass::kForward));
  }
  const ForwardArgs& args = over ? *over : given;
  std::visit([&](const auto& config) { begin_parameters(config, kept, values_.forward); },
             spec.kernel);
  set_forward(spec, problem, args);
  set_splits(problem, layout, base);
  set_feature_values(problem, args, codegen::Pass::kForward, values_.features);
  if (spec.max_logits) set_maxima(problem, args, layout, base);
  if (spec.mask_to_bits) set_mask(spec, problem, args, layout, base);
  if (spec.block_lists) set_blocks(problem, args, layout, base);
  if (spec.gather_keys) set_selection(spec, problem, given, layout, base);
  if (spec.operand_ranges) set_ranges(spec, problem, layout, base);
  if (problem.mask_prepared) {
    const PreparedMask& mask = *args.prepared_mask;
    values_.features.bit_mask = {bit_mask(problem, prepared_layout(problem, mask), mask.data).bits,
                                 batch_cycle(problem.mask.cycle)};
  }
  if (spec.facts.single_tile && runs(ForwardStep::kForward)) share_out_planes(spec, problem);
  if (spec.facts.persistent && runs(ForwardStep::kForward)) {
    std::visit(
        [&](const auto& config) { set_maps(config, problem, args, maker, kept, values_.forward); },
        spec.kernel);
    limit_blocks(ForwardStep::kForward, static_cast<unsigned>(spec.block_slots));
    const auto blocks = static_cast<kernel::int32>(shape(ForwardStep::kForward).grid[0]);
    if (spec.facts.shared_bias) {
      values_.shared_bias = {values_.forward, plane_order(problem), blocks};
    } else {
      share_out_work(problem, layout.grid, blocks, values_.forward);
    }
    // One round has no places to take.
    const bool counts = spec.counts_work() && layout.grid.blocks() > blocks;
    set_count(spec, counts ? reinterpret_cast<kernel::uint32*>(base + layout.work_taken) : nullptr);
    if (spec.packed_order) set_order(problem, layout, blocks, base);
  }
  list_parameters(spec);
}

void ForwardArguments::set_forward(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                   const ForwardArgs& args) {
  kernel::ForwardParams& p = values_.forward.base;
  p.q = args.q.data;
  p.k = args.k.data;
  p.v = args.v.data;
  p.out = args.out.data;
  p.lse = args.lse;
  p.q_strides = row_strides(problem.q);
  p.k_strides = row_strides(problem.k);
  p.v_strides = row_strides(problem.v);
  p.out_strides = row_strides(problem.out);
  p.num_heads_q = problem.num_heads_q;
  p.seqlen_q = problem.seqlen_q;
  p.seqlen_kv = problem.seqlen_kv;
  p.score_scale = problem.scale;
  p.exponent_scale = spec.facts.scale_first ? kernel::kLog2E : problem.scale * kernel::kLog2E;
}

void ForwardArguments::set_splits(const problem::Problem& problem, const WorkspaceLayout& layout,
                                  std::byte* workspace) {
  const ForwardGrid& grid = layout.grid;
  kernel::ForwardParams& p = values_.forward.base;
  p.num_q_tiles = grid.q_tiles;
  p.num_splits = grid.splits;
  p.section_planes = grid.section_planes;
  p.num_planes = static_cast<kernel::int32>(grid.planes);  // no more than there are blocks
  set_shape(ForwardStep::kForward, grid.blocks());
  if (grid.splits == 1) return;
  p.partial_out = reinterpret_cast<float*>(workspace + layout.partial_out);
  p.partial_lse = reinterpret_cast<float*>(workspace + layout.partial_lse);
  values_.combine = {.partial_out = p.partial_out,
                     .partial_lse = p.partial_lse,
                     .out = p.out,
                     .lse = p.lse,
                     .out_strides = p.out_strides,
                     .num_heads_q = p.num_heads_q,
                     .seqlen_q = p.seqlen_q,
                     .num_splits = p.num_splits,
                     .partial_row_max = nullptr,
                     .row_max = nullptr};
  set_shape(ForwardStep::kCombine,
            std::int64_t{problem.batch} * problem.num_heads_q * problem.seqlen_q);
}

// The largest scores of rows go where the caller wants them, or to those of heads alone.
void ForwardArguments::set_maxima(const problem::Problem& problem, const ForwardArgs& args,
                                  const WorkspaceLayout& layout, std::byte* workspace) {
  const auto at = [&](std::size_t offset) { return reinterpret_cast<float*>(workspace + offset); };
  float* const rows = problem.has_row_max ? args.row_max : at(layout.row_max);
  values_.features.row_max.target = rows;
  if (layout.grid.splits > 1) {
    values_.features.row_max.target = at(layout.partial_row_max);
    values_.combine.partial_row_max = at(layout.partial_row_max);
    values_.combine.row_max = rows;
  }
  if (!problem.has_max_logits) return;
  values_.max_logits = {.row_max = rows,
                        .max_logits = args.max_logits,
                        .batch = problem.has_rows() ? problem.tensor_batch() : 0,
                        .num_heads_q = problem.num_heads_q,
                        .seqlen_q = std::max(problem.seqlen_q, 1)};
  set_shape(ForwardStep::kMaxLogits, problem.num_heads_q);
}

void ForwardArguments::set_mask(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                const ForwardArgs& args, const WorkspaceLayout& layout,
                                std::byte* workspace) {
  const BitMaskLayout mask = mask_layout(*spec.mask_to_bits, problem);
  void* const memory = workspace + layout.mask;
  values_.mask_to_bits = mask_to_bits_params(problem.mask, args.mask->data, mask, memory);
  values_.features.bit_mask = {bit_mask(problem, mask, memory).bits,
                               batch_cycle(problem.mask.cycle)};
  set_shape(ForwardStep::kMaskToBits, mask_to_bits_blocks(problem.mask));
}

void ForwardArguments::set_blocks(const problem::Problem& problem, const ForwardArgs& args,
                                  const WorkspaceLayout& layout, std::byte* workspace) {
  set_block_lists(problem, *args.blocks, workspace + layout.block_lists, values_.features.keep,
                  values_.block_lists);
  if (!runs(ForwardStep::kForward)) return;
  set_shape(ForwardStep::kBlockLists, block_lists_layout(problem).thread_blocks);
}

void ForwardArguments::set_selection(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                     const ForwardArgs& args, const WorkspaceLayout& layout,
                                     std::byte* workspace) {
  set_key_selection(problem, args, workspace + layout.selection,
                    key_selection_layout(problem, codegen::Pass::kForward), values_.features,
                    values_.gather_keys);
  if (!runs(ForwardStep::kForward)) return;
  set_shape(ForwardStep::kGatherKeys, gather_blocks(*spec.gather_keys, problem));
}

void ForwardArguments::set_ranges(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                  const WorkspaceLayout& layout, std::byte* workspace) {
  set_operand_ranges(spec.ranged_axes, problem, workspace + layout.operand_ranges,
                     values_.features.keep, values_.operand_ranges);
  if (!runs(ForwardStep::kForward)) return;
  set_shape(
      ForwardStep::kOperandRanges,
      spec.operand_ranges->num_blocks(operand_ranges_layout(spec.ranged_axes, problem).ranges));
}

void ForwardArguments::set_order(const problem::Problem& problem, const WorkspaceLayout& layout,
                                 kernel::int32 blocks, std::byte* workspace) {
  kernel::PackedSequencesParams& sequences = values_.features.sequences;
  sequences.work = {.tiles = reinterpret_cast<kernel::PackedTile*>(workspace + layout.order),
                    .counts = reinterpret_cast<kernel::uint32*>(workspace + layout.order_counts)};
  values_.packed_order = {.q = sequences.q,
                          .kv = sequences.kv,
                          .used_kv = sequences.used_kv,
                          .costs = packed_costs(problem, values_.features.band),
                          .work = sequences.work,
                          .num_planes = values_.forward.base.num_planes,
                          .num_kv_heads = problem.num_heads_kv,
                          .most_sections = layout.grid.sections,
                          .num_blocks = blocks};
  set_shape(ForwardStep::kPackedOrder, 1);
}

// Thread blocks stay on their SMs.
void ForwardArguments::set_count(const ForwardPlanSpec& spec, kernel::uint32* work_taken) {
  values_.forward.work_taken = work_taken;
  values_.mask_to_bits.work_taken = work_taken;
  values_.block_lists.work_taken = work_taken;
  values_.gather_keys.work_taken = work_taken;
  values_.operand_ranges.work_taken = work_taken;
  values_.clear_count.count = work_taken;
  if (!spec.clear_count) return;
  if (work_taken != nullptr) {
    set_shape(ForwardStep::kClearCount, 1);
  } else {
    begin_after_all(ForwardStep::kForward);
  }
}

void ForwardArguments::share_out_planes(const ForwardPlanSpec& spec,
                                        const problem::Problem& problem) {
  limit_blocks(ForwardStep::kForward, static_cast<unsigned>(spec.block_slots));
  values_.single_tile = {
      .base = values_.forward.base,
      .order = plane_order(problem),
      .num_blocks = static_cast<kernel::int32>(shape(ForwardStep::kForward).grid[0])};
}

void ForwardArguments::list_parameters(const ForwardPlanSpec& spec) {
  // The base is the first member, so that one address serves other paths.
  if (spec.facts.single_tile) {
    list(ForwardStep::kForward, {&values_.single_tile}, values_.features);
  } else if (spec.facts.shared_bias) {
    list(ForwardStep::kForward, {&values_.shared_bias}, values_.features);
  } else {
    list(ForwardStep::kForward, {&values_.forward}, values_.features);
  }
  list(ForwardStep::kMaskToBits, {&values_.mask_to_bits});
  list(ForwardStep::kBlockLists, {&values_.block_lists});
  list(ForwardStep::kGatherKeys, {&values_.gather_keys});
  list(ForwardStep::kOperandRanges, {&values_.operand_ranges});
  list(ForwardStep::kClearCount, {&values_.clear_count});
  list(ForwardStep::kPackedOrder, {&values_.packed_order});
  list(ForwardStep::kCombine, {&values_.combine});
  list(ForwardStep::kMaxLogits, {&values_.max_logits});
}

}  // namespace attnjit::launch
