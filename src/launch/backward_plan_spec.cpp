#include "launch/backward_plan_spec.hpp"

#include <algorithm>

#include "attnjit/error.hpp"
#include "launch/backward_order.hpp"
#include "launch/bit_mask.hpp"
#include "launch/block_lists.hpp"
#include "launch/dbias_shares.hpp"
#include "launch/grid.hpp"
#include "launch/key_selection.hpp"
#include "launch/operand_ranges.hpp"
#include "launch/query_splits.hpp"

namespace attnjit::launch {
namespace {

using codegen::DbiasMethod;
using codegen::DqMethod;

constexpr int kGroup = 8;  // columns of a fragment

// Adds attn_bwd_dkv to the plan.
void add_dkv(BackwardPlanSpec& spec, const codegen::Arch& arch,
             const codegen::TemplateSet& templates) {
  std::visit(
      [&](const auto& config) {
        spec.block_slots = arch.sm_count * blocks_per_sm(config, config.shared_bytes(), arch);
        auto& step = spec.steps.add(
            BackwardStep::kDkv, codegen::render_dkv(spec.family, spec.tunables, templates), config,
            config.shared_bytes(), spec.dkv.takes_orders && arch.dependent_launch);
        step.wgmma = codegen::multiplies_by_wgmma(config);
      },
      spec.dkv_kernel);
}

int dq_shared_bytes(const kernel::BackwardMmaConfig& config) { return config.dq_shared_bytes(); }
int dq_shared_bytes(const auto& config) { return config.shared_bytes(); }

// Adds attn_bwd_dq to the plan.
void add_dq(BackwardPlanSpec& spec, const codegen::TemplateSet& templates) {
  std::visit(
      [&](const auto& config) {
        auto& step = spec.steps.add(BackwardStep::kDq,
                                    codegen::render_dq(spec.family, spec.tunables, templates),
                                    config, dq_shared_bytes(config));
        step.wgmma = codegen::multiplies_by_wgmma(config);
      },
      *spec.dq_kernel);
}

}  // namespace

BackwardPlanSpec make_backward_plan_spec(const problem::BackwardFamily& family,
                                         const codegen::BackwardTunables& tunables,
                                         const codegen::Arch& arch,
                                         const codegen::TemplateSet& templates) {
  BackwardPlanSpec spec{.family = family,
                        .tunables = tunables,
                        .features = codegen::features(family.scores, codegen::Pass::kBackward),
                        .dkv_kernel = codegen::dkv_kernel(family, tunables),
                        .block_lists = codegen::block_lists_config(family.scores),
                        .gather_keys = codegen::gather_keys_config(family.scores),
                        .scatter_keys = codegen::scatter_keys_config(family),
                        .bias_sum = codegen::bias_sum_config(family, tunables.dbias_method),
                        .sink_sum = codegen::sink_sum_config(family),
                        .sites = codegen::operand_sites(family, tunables)};
  spec.dkv = codegen::facts(spec.dkv_kernel);
  spec.mask_to_bits = codegen::mask_to_bits_config(family, tunables, spec.dkv);
  if (family.scores.keep) {
    spec.ranged_axes = codegen::ranged_axes(*family.scores.keep, false);
    spec.operand_ranges = codegen::operand_ranges_config(spec.ranged_axes);
  }
  if (tunables.dq_method == DqMethod::kKernel)
    spec.dq_kernel = codegen::dq_kernel(family, tunables);
  if (tunables.dbias_method == DbiasMethod::kKernel) {
    spec.dbias_kernel = codegen::dbias_kernel(family, tunables);
    spec.dbias_slots = arch.sm_count * blocks_per_sm(*spec.dbias_kernel,
                                                     spec.dbias_kernel->dbias_shared_bytes(), arch);
  }

  const auto add = [&](BackwardStep kind, codegen::Source source, const auto& config, int bytes) {
    spec.steps.add(kind, std::move(source), config, bytes);
  };
  if (spec.mask_to_bits) {
    add(BackwardStep::kMaskToBits, codegen::render_mask_to_bits(*spec.mask_to_bits, templates),
        *spec.mask_to_bits, spec.mask_to_bits->shared_bytes());
  }
  if (spec.block_lists) {
    add(BackwardStep::kBlockLists, codegen::render_block_lists(*spec.block_lists, templates),
        *spec.block_lists, spec.block_lists->shared_bytes());
  }
  if (spec.gather_keys) {
    add(BackwardStep::kGatherKeys, codegen::render_gather_keys(*spec.gather_keys, templates),
        *spec.gather_keys, spec.gather_keys->shared_bytes());
  }
  if (spec.operand_ranges) {
    add(BackwardStep::kOperandRanges,
        codegen::render_operand_ranges(*spec.operand_ranges, templates), *spec.operand_ranges,
        spec.operand_ranges->shared_bytes());
  }
  if (!spec.dkv.reads_out) {
    const auto preprocess = codegen::preprocess_config(family, tunables, spec.dkv);
    add(BackwardStep::kPreprocess, codegen::render_backward_preprocess(preprocess, templates),
        preprocess, 0);
  }
  add_dkv(spec, arch, templates);
  const auto add_sum = [&](BackwardStep kind, int columns, bool stored = false,
                           bool overlaps = false) {
    const auto config = codegen::fragment_sum_config(family, columns, stored);
    spec.steps.add(kind, codegen::render_fragment_sum(config, templates), config,
                   config.shared_bytes(), overlaps);
  };
  if (spec.dq_kernel) {
    add_dq(spec, templates);
  } else if (spec.adds_dq()) {
    add_sum(BackwardStep::kDqSum, family.scores.head_dim, spec.dkv.orders_dq(),
            spec.dkv.takes_orders && arch.dependent_launch);
  }
  if (tunables.split) {
    add_sum(BackwardStep::kDkSum, family.scores.head_dim);
    add_sum(BackwardStep::kDvSum, family.scores.head_dim_v);
  }
  if (spec.dbias_kernel) {
    add(BackwardStep::kDbias, codegen::render_dbias(family, tunables, templates),
        *spec.dbias_kernel, spec.dbias_kernel->dbias_shared_bytes());
  }
  if (spec.bias_sum) {
    add(BackwardStep::kBiasSum, codegen::render_bias_sum(*spec.bias_sum, templates), *spec.bias_sum,
        spec.bias_sum->shared_bytes());
  }
  if (spec.sites.have_kernels()) {
    const auto& config = spec.operand_sites.emplace(codegen::operand_gradient_config(family, arch));
    const int bytes = config.operand_shared_bytes();
    spec.operand_slots = arch.sm_count * blocks_per_sm(config, bytes, arch);
    for (std::size_t n = 0; n < spec.sites.list.size(); ++n) {
      if (spec.sites.in_dkv == n) continue;
      add(operand_site_step(n),
          codegen::render_operand_gradient(config, family, spec.sites.list[n], templates), config,
          bytes);
    }
  }
  if (family.gradient_operands.any()) {
    const auto& config = spec.operand_sum.emplace(codegen::operand_sum_config());
    spec.sm_count = arch.sm_count;
    for (const BackwardStep step : {BackwardStep::kOperandSlices, BackwardStep::kOperandSum}) {
      add(step, codegen::render_operand_sums(config, templates), config, config.shared_bytes());
    }
  }
  if (spec.sink_sum) {
    add(BackwardStep::kSinkSum, codegen::render_bias_sum(*spec.sink_sum, templates), *spec.sink_sum,
        spec.sink_sum->shared_bytes());
  }
  if (spec.scatter_keys) {
    add(BackwardStep::kScatterKeys, codegen::render_scatter_keys(*spec.scatter_keys, templates),
        *spec.scatter_keys, spec.scatter_keys->shared_bytes());
  }
  return spec;
}

std::int32_t num_tiles(const problem::Problem& problem, std::int32_t rows, int size) {
  return problem.packed ? kernel::num_packed_tiles(rows, problem.batch, size)
                        : kernel::ceil_div(rows, size);
}

bool batch_fastest(const problem::Problem& problem) {
  return !problem.packed && problem.bias.extent != problem::Extent::kAbsent &&
         problem.bias.num_batches < problem.batch;
}

BackwardGrid backward_grid(const BackwardPlanSpec& spec, const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  BackwardGrid grid;
  grid.q_tiles = num_tiles(p, p.seqlen_q, spec.dkv.block_q);
  grid.kv_tiles = num_tiles(p, p.seqlen_kv, spec.dkv.block_kv);
  // The copy engine brings the numbers of whole tiles of rows. Those past a packed sequence's own
  // are taken from a block that no sequence has.
  const int rows =
      spec.dkv.whole_tiles ? std::max(spec.dkv.block_q, kernel::kRowBlock) : kernel::kRowBlock;
  const int tile_blocks = rows / kernel::kRowBlock;
  grid.row_blocks = p.packed ? num_tiles(p, p.seqlen_q, kernel::kRowBlock) + tile_blocks - 1
                             : num_tiles(p, p.seqlen_q, rows) * tile_blocks;
  const problem::BiasGradient& dbias = problem.dbias;
  const bool whole_tiles = spec.dkv.whole_tiles;
  grid.dbias_queries =
      kernel::round_up(dbias.queries, whole_tiles ? spec.dkv.block_q : kBiasFragmentQueries);
  grid.dbias_keys =
      kernel::round_up(dbias.keys, whole_tiles ? spec.dkv.block_kv : kBiasFragmentKeys);
  if (spec.dbias_kernel || spec.dkv.single_tile || spec.dkv.shared_bias) {
    grid.dbias_shares = dbias_shares(spec, problem);
  }
  grid.q_planes = std::int64_t{p.tensor_batch()} * p.num_heads_q;
  grid.kv_planes = std::int64_t{p.tensor_batch()} * p.num_heads_kv;
  if (spec.tunables.split && !p.packed) grid.splits = query_splits(grid, spec, p);
  if (spec.dkv.single_tile) {
    const kernel::BiasPlanes planes = walked_planes(spec, problem);
    grid.dkv_blocks = std::int64_t{planes.batches} * planes.heads * grid.dbias_shares;
    return grid;
  }
  if (spec.dkv.shared_bias) {
    grid.dkv_blocks = std::int64_t{dbias.batches} * dbias.heads * grid.kv_tiles * grid.dbias_shares;
    return grid;
  }
  grid.dkv_blocks =
      spec.owns_kv_head()
          ? std::min<std::int64_t>(grid.kv_planes, grid.kv_tiles > 0 ? spec.block_slots : 0)
          : grid.kv_planes * grid.kv_tiles * grid.splits;
  if (spec.dkv.persistent) {
    grid.dkv_blocks = std::min<std::int64_t>(grid.dkv_blocks, spec.block_slots);
  }
  order_work_tiles(grid, spec, problem);
  return grid;
}

std::int64_t dbias_partial_keys(const problem::BackwardProblem& problem) {
  return kernel::round_up(problem.dbias.keys, kGroup);
}

std::int64_t dbias_partial_batch(const problem::BackwardProblem& problem) {
  return problem.forward.bias.packs_keys ? 1 : problem.forward.batch;
}

SiteLayout site_layout_of(const BackwardPlanSpec& spec, std::size_t number,
                          const problem::BackwardProblem& problem) {
  const expr::GradientSite& site = spec.sites.list[number];
  if (spec.sites.in_dkv == number) {
    return site_layout(site, {spec.dkv.block_q, spec.dkv.block_kv, spec.block_slots, true},
                       problem);
  }
  const kernel::BackwardMmaConfig& config = *spec.operand_sites;
  return site_layout(site, {config.block_q, config.block_kv, spec.operand_slots, false}, problem);
}

BackwardLayout workspace_layout(const BackwardPlanSpec& spec,
                                const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  BackwardLayout layout{.grid = backward_grid(spec, problem)};
  const auto take = [&](std::int64_t bytes) {
    const std::size_t offset = layout.bytes;
    layout.bytes += align_up(static_cast<std::size_t>(bytes));
    return offset;
  };
  const std::int64_t rows = layout.grid.rows();
  const auto columns = [](int head_dim) { return kernel::round_up(head_dim, kGroup); };
  constexpr std::int64_t kFloat = sizeof(float);
  if (!spec.dkv.reads_out) {
    layout.lse = take(rows * kFloat);
    layout.delta = take(rows * kFloat);
    layout.live = take(rows / 8);
  }
  if (spec.dkv.whole_tiles) layout.row_bf16x3 = take(rows * kernel::kRowBf16x3Bytes);
  const DbiasMethod dbias = spec.tunables.dbias_method;
  if (dbias == DbiasMethod::kRows) layout.ds_rows = take(rows * kFloat);
  if (spec.sink_sum) layout.dsink_rows = take(rows * kFloat);
  if (spec.mask_to_bits) layout.mask = take(mask_layout(*spec.mask_to_bits, p).bytes);
  if (spec.block_lists) layout.block_lists = take(block_lists_layout(p).bytes);
  if (spec.gather_keys) {
    layout.selection = take(key_selection_layout(p, codegen::Pass::kBackward).bytes);
  }
  if (spec.operand_ranges) {
    layout.operand_ranges = take(operand_ranges_layout(spec.ranged_axes, p).bytes);
  }
  if (layout.grid.dbias_shares > 1 &&
      (dbias == DbiasMethod::kKernel || dbias == DbiasMethod::kPerBlock)) {
    layout.dbias_partials =
        take(std::int64_t{layout.grid.dbias_shares} * problem.dbias.batches * problem.dbias.heads *
             problem.dbias.queries * dbias_partial_keys(problem) * kFloat);
  }
  if (dbias == DbiasMethod::kPerPlane) {
    layout.dbias_partials =
        take(layout.grid.q_planes * problem.dbias.queries * dbias_partial_keys(problem) *
             std::int64_t{sizeof(kernel::uint16)});
  }
  for (std::size_t n = 0; n < spec.sites.list.size(); ++n) {
    SiteLayout& site = layout.sites[n];
    site = site_layout_of(spec, n, problem);
    if (site.entries == 0) continue;
    site.values = take(site.shares * site.entries * kFloat);
    site.numbers = take(site.entries * std::int64_t{sizeof(kernel::int32)});
    site.ranges = take(site.entries / kernel::kListChunk * std::int64_t{sizeof(kernel::IntRange)});
  }
  for (std::size_t n = 0; n < problem.gradients_of_operands().size(); ++n) {
    const problem::OperandGradient& gradient = problem.operand_gradients[n];
    SliceLayout& slices = layout.slices[n];
    slices = slice_layout(gradient, spec.sites.list, layout.sites.data(), *spec.operand_sum,
                          spec.sm_count);
    if (slices.slices > 1) slices.sums = take(slices.slices * elements(gradient) * kFloat);
  }
  if (spec.owns_kv_head()) {
    layout.dq_sum = take(layout.grid.dkv_blocks * p.gqa_ratio() * layout.grid.padded_rows() *
                         columns(p.head_dim) * kFloat);
  }
  const std::int64_t dq_bytes = rows * columns(p.head_dim) * kFloat;
  if (spec.dkv.orders_dq()) layout.dq_sum = take(dq_bytes);
  layout.sums = layout.bytes;
  if (layout.grid.splits > 1) {
    const std::int64_t kv_rows =
        layout.grid.kv_planes * kernel::round_up(p.seqlen_kv, kernel::kRowBlock);
    layout.dk_sum = take(kv_rows * columns(p.head_dim) * kFloat);
    layout.dv_sum = take(kv_rows * columns(p.head_dim_v) * kFloat);
  }
  if (spec.dkv.orders_dq()) layout.dq_semaphores = take(rows / 16 * kFloat);
  if (spec.dkv.persistent) layout.work_taken = take(kFloat);
  if (dbias == DbiasMethod::kPerPlane) {
    layout.dbias_stored = take(layout.grid.q_planes * layout.grid.q_tiles * layout.grid.kv_tiles);
  }
  if (dbias == DbiasMethod::kColumns) {
    layout.dbias_partials =
        take(dbias_partial_batch(problem) * p.num_heads_q * problem.dbias.keys * kFloat);
  } else if (dbias == DbiasMethod::kAdd) {
    const std::int64_t dbias_planes = std::int64_t{problem.dbias.batches} * problem.dbias.heads;
    layout.dbias_partials =
        take(dbias_planes * layout.grid.dbias_queries * layout.grid.dbias_keys * kFloat);
  }
  for (SiteLayout& site : layout.sites) {
    if (site.copies > 0) site.values = take(site.copies * site.elements * kFloat);
  }
  if (layout.grid.zeros_ahead > 0) {
    const std::int64_t sections = ceil_div(layout.grid.kv_planes, layout.grid.section_planes);
    layout.zeroed = take(sections * kFloat);
  }
  layout.sum_bytes = layout.bytes - layout.sums;
  if (spec.adds_dq() && !spec.dkv.orders_dq()) {
    layout.dq_sum = take(dq_bytes);
    layout.sum_bytes = layout.bytes - layout.sums;
    if (layout.grid.zeros_ahead > 0) {
      const std::int64_t planes = layout.grid.zeros_ahead * layout.grid.section_planes;
      layout.sum_bytes = layout.dq_sum - layout.sums + dq_bytes / layout.grid.kv_planes * planes;
    }
  }
  return layout;
}

}  // namespace attnjit::launch
