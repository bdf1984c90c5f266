#include "launch/forward_plan_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attnjit/error.hpp"
#include "launch/bit_mask.hpp"
#include "launch/block_lists.hpp"
#include "launch/grid.hpp"
#include "launch/key_selection.hpp"
#include "launch/operand_ranges.hpp"

namespace attnjit::launch {
namespace {

// Of splitting keys, in tiles of keys (H200, decode, 2026-11-21 and 24).
constexpr SplitCosts kKeySplitCosts{.start = 2, .combine = 6, .shares_per_tile = 128};

// Adds attn_fwd to the plan.
void add_forward(ForwardPlanSpec& spec, const codegen::Arch& arch,
                 const codegen::TemplateSet& templates) {
  // A persistent kernel waits itself for the one before it, whose words it does not take for
  // constants; operands of a keep expression it does.
  const bool reads_operands = spec.block_lists || spec.gather_keys || spec.operand_ranges;
  const bool awaits = spec.facts.persistent && (spec.packed_order || spec.clear_count ||
                                                (spec.mask_to_bits && !reads_operands));
  std::visit(
      [&](const auto& config) {
        spec.block_slots = arch.sm_count * blocks_per_sm(config, config.shared_bytes(), arch);
        auto& step = spec.steps.add(ForwardStep::kForward,
                                    codegen::render_forward(spec.family, spec.tunables, templates),
                                    config, config.shared_bytes(), awaits && arch.dependent_launch);
        step.wgmma = codegen::multiplies_by_wgmma(config);
      },
      spec.kernel);
}

}  // namespace

ForwardPlanSpec make_forward_plan_spec(const problem::Family& family,
                                       const codegen::ForwardTunables& tunables,
                                       const codegen::Arch& arch,
                                       const codegen::TemplateSet& templates) {
  ForwardPlanSpec spec{.family = family,
                       .tunables = tunables,
                       .features = codegen::features(family, codegen::Pass::kForward),
                       .kernel = codegen::forward_kernel(family, tunables),
                       .mask_to_bits = codegen::mask_to_bits_config(family),
                       .block_lists = codegen::block_lists_config(family),
                       .gather_keys = codegen::gather_keys_config(family),
                       .combine = codegen::forward_combine_config(family),
                       .max_logits = codegen::max_logits_config(family)};
  spec.facts = codegen::facts(spec.kernel);
  spec.packed_order = codegen::packed_order_config(family, spec.facts);
  if (family.keep) {
    spec.ranged_axes = codegen::ranged_axes(*family.keep, spec.facts.pack_gqa_heads > 1);
    spec.operand_ranges = codegen::operand_ranges_config(spec.ranged_axes);
  }
  if (spec.mask_to_bits) {
    spec.steps.add(ForwardStep::kMaskToBits,
                   codegen::render_mask_to_bits(*spec.mask_to_bits, templates), *spec.mask_to_bits,
                   spec.mask_to_bits->shared_bytes());
  }
  if (spec.block_lists) {
    spec.steps.add(ForwardStep::kBlockLists,
                   codegen::render_block_lists(*spec.block_lists, templates), *spec.block_lists,
                   spec.block_lists->shared_bytes());
  }
  if (spec.gather_keys) {
    spec.steps.add(ForwardStep::kGatherKeys,
                   codegen::render_gather_keys(*spec.gather_keys, templates), *spec.gather_keys,
                   spec.gather_keys->shared_bytes());
  }
  if (spec.operand_ranges) {
    spec.steps.add(ForwardStep::kOperandRanges,
                   codegen::render_operand_ranges(*spec.operand_ranges, templates),
                   *spec.operand_ranges, spec.operand_ranges->shared_bytes());
  }
  spec.clear_count = codegen::clear_count_config(
      spec.facts, spec.mask_to_bits || spec.block_lists || spec.gather_keys ||
                      spec.operand_ranges || spec.packed_order);
  if (spec.clear_count) {
    spec.steps.add(ForwardStep::kClearCount,
                   codegen::render_clear_count(*spec.clear_count, templates), *spec.clear_count,
                   spec.clear_count->shared_bytes());
  }
  if (spec.packed_order) {
    spec.steps.add(ForwardStep::kPackedOrder,
                   codegen::render_packed_order(*spec.packed_order, templates), *spec.packed_order,
                   spec.packed_order->shared_bytes());
  }
  add_forward(spec, arch, templates);
  spec.steps.add(ForwardStep::kCombine, codegen::render_forward_combine(spec.combine, templates),
                 spec.combine, spec.combine.shared_bytes(), arch.dependent_launch);
  if (spec.max_logits) {
    spec.steps.add(ForwardStep::kMaxLogits, codegen::render_max_logits(*spec.max_logits, templates),
                   *spec.max_logits, spec.max_logits->shared_bytes(), arch.dependent_launch);
  }
  return spec;
}

ForwardGrid forward_grid(const ForwardPlanSpec& spec, const problem::Problem& problem) {
  const codegen::ForwardFacts& tile = spec.facts;
  const std::int64_t rows = std::int64_t{problem.seqlen_q} * tile.pack_gqa_heads;
  if (rows > std::numeric_limits<std::int32_t>::max() - tile.block_q) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("the {} query heads of a kv head have {} rows together, and a launch "
                            "takes up to {}; split the heads, or set pack_gqa to false in a "
                            "config",
                            tile.pack_gqa_heads, rows,
                            std::numeric_limits<std::int32_t>::max() - tile.block_q));
  }
  ForwardGrid grid;
  const auto all_rows = static_cast<std::int32_t>(rows);
  grid.planes = std::int64_t{problem.tensor_batch()} * problem.num_heads_q / tile.pack_gqa_heads;
  if (problem.packed) {
    grid.q_tiles = kernel::num_packed_tiles(all_rows, problem.batch, tile.block_q);
  } else {
    grid.q_tiles = kernel::ceil_div(all_rows, tile.block_q);
    grid.splits = choose_splits(grid.planes * grid.q_tiles,
                                kernel::ceil_div(problem.seqlen_kv, tile.block_kv),
                                spec.block_slots, kKeySplitCosts);
  }
  grid.falling = grid.splits == 1 && problem::rows_rise(problem);
  const std::int64_t kv_head_bytes =
      std::int64_t{2} * problem.seqlen_kv * (problem.head_dim + problem.head_dim_v);
  if (spec.packed_order) {
    // Of pages, as many as the block table has room for.
    const std::int64_t tables = problem.page_size > 0 ? problem.batch : 1;
    grid.sections = choose_sections(tables * kv_head_bytes, problem.num_heads_kv);
  }
  // kernel::ForwardSchedule and kernel::PackedWork have orders of their own.
  if (grid.falling && (!spec.facts.persistent || spec.counts_work())) {
    const std::int64_t planes_per_kv_head = problem.gqa_ratio() / tile.pack_gqa_heads;
    grid.section_planes = choose_section(kv_head_bytes, planes_per_kv_head, grid.planes);
  }
  return grid;
}

WorkspaceLayout workspace_layout(const ForwardPlanSpec& spec, const problem::Problem& problem) {
  WorkspaceLayout layout{.grid = forward_grid(spec, problem)};
  const auto take = [&](std::int64_t bytes) {
    const std::size_t offset = layout.bytes;
    layout.bytes += align_up(static_cast<std::size_t>(bytes));
    return offset;
  };
  if (spec.mask_to_bits) {
    layout.mask = take(mask_layout(*spec.mask_to_bits, problem).bytes);
  }
  if (spec.block_lists) layout.block_lists = take(block_lists_layout(problem).bytes);
  if (spec.gather_keys) {
    layout.selection = take(key_selection_layout(problem, codegen::Pass::kForward).bytes);
  }
  if (spec.operand_ranges) {
    layout.operand_ranges = take(operand_ranges_layout(spec.ranged_axes, problem).bytes);
  }
  if (spec.counts_work()) layout.work_taken = take(sizeof(kernel::uint32));
  if (spec.packed_order) {
    layout.order = take((std::int64_t{layout.grid.q_tiles} + 1) * sizeof(kernel::PackedTile));
    layout.order_counts = take(kernel::PackedWork::kCounts * sizeof(kernel::uint32));
  }
  const std::int64_t rows =
      std::int64_t{problem.tensor_batch()} * problem.num_heads_q * problem.seqlen_q;
  if (layout.grid.splits > 1) {
    const std::int64_t partials = rows * layout.grid.splits;
    const int columns = spec.combine.padded_head_dim_v();
    layout.partial_out = take(partials * columns * std::int64_t{sizeof(float)});
    layout.partial_lse = take(partials * std::int64_t{sizeof(float)});
    if (spec.max_logits) layout.partial_row_max = take(partials * std::int64_t{sizeof(float)});
  }
  if (spec.max_logits && !problem.has_row_max) {
    layout.row_max = take(rows * std::int64_t{sizeof(float)});
  }
  return layout;
}

}  // namespace attnjit::launch
