#include "launch/backward_arguments.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "launch/block_lists.hpp"
#include "launch/dbias_shares.hpp"
#include "launch/feature_values.hpp"
#include "launch/grid.hpp"
#include "launch/key_selection.hpp"
#include "launch/mask_plan.hpp"
#include "launch/operand_ranges.hpp"

namespace attnjit::launch {
namespace {

using codegen::DbiasMethod;
using problem::Extent;

// Bytes as the kernels that clear memory count them.
constexpr std::int64_t kVectorBytes = 16;

template <class Config>
void set_tiles(kernel::BackwardParams& params, const Config& config,
               const problem::Problem& problem) {
  params.num_q_tiles = num_tiles(problem, problem.seqlen_q, config.block_q);
  params.num_kv_tiles = num_tiles(problem, problem.seqlen_kv, config.block_kv);
}

}  // namespace

BackwardArguments::BackwardArguments(const BackwardPlanSpec& spec,
                                     const problem::BackwardProblem& problem,
                                     const BackwardArgs& given, const BackwardLayout& layout,
                                     void* workspace, const TensorMapMaker& maker)
    : StepArguments(spec), layout_(layout), workspace_(workspace) {
  std::optional<BackwardArgs> over;
  if (spec.gather_keys) {
    over = over_selected(given, at<std::byte>(layout.selection),
                         key_selection_layout(problem.forward, codegen::Pass::kBackward));
  }
  const BackwardArgs& args = over ? *over : given;
  set_scores(problem, args);
  set_feature_values(problem.forward, args.forward, codegen::Pass::kBackward, values_.features);
  set_mask(problem.forward, args);
  if (spec.block_lists) set_blocks(problem.forward, args.forward);
  if (spec.gather_keys) set_selection(problem, given);
  if (spec.operand_ranges) set_ranges(problem.forward);
  set_preprocess(problem, args);
  set_sums(problem.forward);
  if (args.dbias && spec.tunables.dbias_method != DbiasMethod::kNone)
    set_dbias(problem, *args.dbias);
  if (spec.dkv.single_tile) set_single_tile(problem, args);
  set_maps(problem, args, maker);
  if (spec.sink_sum) set_dsink(problem, *args.dsink);
  if (spec.operand_sum) set_operand_gradients(problem, args);
  set_shapes(problem);
  list_parameters();
}

void BackwardArguments::set_maps(const problem::BackwardProblem& problem, const BackwardArgs& args,
                                 const TensorMapMaker& maker) {
  const DbiasMethod method = spec_.tunables.dbias_method;
  std::optional<DbiasTiles> dbias;
  if (args.dbias && codegen::stores_dbias(method)) {
    const std::int64_t keys =
        method == DbiasMethod::kPerPlane ? dbias_partial_keys(problem) : problem.forward.seqlen_kv;
    dbias.emplace(DbiasTiles{values_.dkv_dbias, static_cast<std::int32_t>(keys)});
  }
  std::visit(
      [&](const auto& config) {
        launch::set_maps(config, dbias, problem, args, maker, values_.dkv);
      },
      spec_.dkv_kernel);
  if (!spec_.dq_kernel) return;
  std::visit(
      [&](const auto& config) { launch::set_maps(config, problem, args, maker, values_.dq); },
      *spec_.dq_kernel);
}

void BackwardArguments::set_scores(const problem::BackwardProblem& problem,
                                   const BackwardArgs& args) {
  const problem::Problem& forward = problem.forward;
  kernel::BackwardParams& p = values_.dkv.base;
  p.q = args.forward.q.data;
  p.k = args.forward.k.data;
  p.v = args.forward.v.data;
  p.dout = args.dout.data;
  p.dq = args.dq.data;
  p.dk = args.dk.data;
  p.dv = args.dv.data;
  if (!spec_.dkv.reads_out) {
    p.rows = {at<float>(layout_.lse), at<float>(layout_.delta), at<kernel::uint32>(layout_.live)};
  }
  p.dq_sum = at<float>(layout_.dq_sum);
  p.dk_sum = at<float>(layout_.dk_sum);
  p.dv_sum = at<float>(layout_.dv_sum);
  p.q_strides = row_strides(forward.q);
  p.k_strides = row_strides(forward.k);
  p.v_strides = row_strides(forward.v);
  p.dout_strides = row_strides(problem.dout);
  p.dq_strides = row_strides(problem.dq);
  p.dk_strides = row_strides(problem.dk);
  p.dv_strides = row_strides(problem.dv);
  p.batch = forward.batch;
  p.num_heads_q = forward.num_heads_q;
  p.seqlen_q = forward.seqlen_q;
  p.seqlen_kv = forward.seqlen_kv;
  p.padded_rows = layout_.grid.padded_rows();
  p.num_splits = layout_.grid.splits;
  p.num_planes = static_cast<kernel::int32>(
      std::min<std::int64_t>(layout_.grid.kv_planes, std::numeric_limits<kernel::int32>::max()));
  p.section_planes = static_cast<kernel::int32>(layout_.grid.section_planes);
  p.batch_fastest = batch_fastest(forward);
  p.scale = p.score_scale = forward.scale;
  p.exponent_scale = spec_.dkv.scale_first ? kernel::kLog2E : forward.scale * kernel::kLog2E;
  values_.dq.base = values_.dbias = p;
  p.last_keys_first = layout_.grid.last_keys_first;
  p.last_queries_first = layout_.grid.last_queries_first;
  p.heads_abreast = layout_.grid.heads_abreast;
  set_tiles(p, spec_.dkv, forward);
  if (spec_.dkv.whole_tiles) values_.dkv.row_bf16x3 = at<kernel::uint32>(layout_.row_bf16x3);
  if (spec_.dkv.takes_orders) {
    values_.dkv.dq_semaphores = at<kernel::uint32>(layout_.dq_semaphores);
    values_.dkv.num_blocks = static_cast<kernel::int32>(layout_.grid.dkv_blocks);
    values_.dkv.work_taken = at<kernel::uint32>(layout_.work_taken);
    values_.dkv.zeroed = at<kernel::uint32>(layout_.zeroed);
    values_.dkv.zeros_ahead = layout_.grid.zeros_ahead;
  }
  if (spec_.dq_kernel) {
    std::visit([&](const auto& config) { set_tiles(values_.dq.base, config, forward); },
               *spec_.dq_kernel);
  }
  if (const auto& kernel = spec_.dbias_kernel) {
    values_.dbias.num_q_tiles = kernel::ceil_div(problem.dbias.queries, kernel->block_q);
    values_.dbias.num_kv_tiles = kernel::ceil_div(problem.dbias.keys, kernel->block_kv);
  }
}

void BackwardArguments::set_mask(const problem::Problem& problem, const BackwardArgs& args) {
  kernel::Grouped<kernel::BackwardMaskParams>& bits = values_.features.backward_mask;
  bits.cycle = batch_cycle(problem.mask.cycle);
  if (problem.mask_prepared) {
    const PreparedMask& mask = *args.forward.prepared_mask;
    static_cast<kernel::BackwardMaskParams&>(bits) =
        bit_mask(problem, prepared_layout(problem, mask), mask.data);
  }
  if (!spec_.mask_to_bits) return;
  const BitMaskLayout layout = mask_layout(*spec_.mask_to_bits, problem);
  void* const memory = at<std::byte>(layout_.mask);
  static_cast<kernel::BackwardMaskParams&>(bits) = bit_mask(problem, layout, memory);
  values_.mask_to_bits = mask_to_bits_params(problem.mask, args.forward.mask->data, layout, memory);
  set_shape(BackwardStep::kMaskToBits, mask_to_bits_blocks(problem.mask));
}

void BackwardArguments::set_blocks(const problem::Problem& problem, const ForwardArgs& args) {
  set_block_lists(problem, *args.blocks, at<std::byte>(layout_.block_lists), values_.features.keep,
                  values_.block_lists);
  set_shape(BackwardStep::kBlockLists, block_lists_layout(problem).thread_blocks);
}

void BackwardArguments::set_selection(const problem::BackwardProblem& problem,
                                      const BackwardArgs& args) {
  const KeySelectionLayout layout = key_selection_layout(problem.forward, codegen::Pass::kBackward);
  void* const memory = at<std::byte>(layout_.selection);
  set_key_selection(problem.forward, args.forward, memory, layout, values_.features,
                    values_.gather_keys);
  values_.scatter_keys = scatter_params(*spec_.scatter_keys, problem, args, memory, layout);
  set_shape(BackwardStep::kGatherKeys, gather_blocks(*spec_.gather_keys, problem.forward));
  set_shape(BackwardStep::kScatterKeys, scatter_blocks(*spec_.scatter_keys, problem));
}

void BackwardArguments::set_ranges(const problem::Problem& problem) {
  set_operand_ranges(spec_.ranged_axes, problem, at<std::byte>(layout_.operand_ranges),
                     values_.features.keep, values_.operand_ranges);
  if (problem.has_rows() && problem.seqlen_kv > 0) {
    set_shape(
        BackwardStep::kOperandRanges,
        spec_.operand_ranges->num_blocks(operand_ranges_layout(spec_.ranged_axes, problem).ranges));
  }
}

void BackwardArguments::set_preprocess(const problem::BackwardProblem& problem,
                                       const BackwardArgs& args) {
  const problem::Problem& forward = problem.forward;
  const std::int64_t row_blocks = layout_.grid.q_planes * layout_.grid.row_blocks;
  // Without rows there may still be sums to be set to zero.
  const std::int64_t blocks = std::max<std::int64_t>(row_blocks, layout_.sum_bytes > 0 ? 1 : 0);
  set_shape(BackwardStep::kPreprocess, blocks);
  const bool rows = spec_.tunables.dbias_method == DbiasMethod::kRows;
  values_.preprocess = {
      .out = args.forward.out.data,
      .dout = args.dout.data,
      .lse = args.forward.lse,
      .dlse = args.dlse,
      .rows = values_.dkv.base.rows,
      .sink = values_.features.sink,
      .row_mask = values_.features.row_mask,
      .operand_queries = forward.packed ? forward.operand_queries : forward.seqlen_q,
      .ds_rows = rows ? at<float>(layout_.ds_rows) : nullptr,
      .dsink_rows = spec_.sink_sum ? at<float>(layout_.dsink_rows) : nullptr,
      .sums = at<float>(layout_.sums),
      .sum_vectors = static_cast<std::int64_t>(layout_.sum_bytes) / kVectorBytes,
      .out_strides = row_strides(forward.out),
      .dout_strides = row_strides(problem.dout),
      .num_heads_q = forward.num_heads_q,
      .seqlen_q = forward.seqlen_q,
      .num_row_blocks = row_blocks > 0 ? layout_.grid.row_blocks : 0,
      .num_blocks = static_cast<kernel::int32>(blocks),
      .row_bf16x3 = spec_.dkv.whole_tiles ? at<kernel::uint32>(layout_.row_bf16x3) : nullptr,
      .inverse_scale = spec_.dkv.scale_first ? 0.0f : 1.0f / forward.scale,
      .packed = values_.features.sequences.q,
      .dq = args.dq.data,
      .dq_strides = row_strides(problem.dq),
      .row_bias = values_.features.bias};
}

void BackwardArguments::set_sums(const problem::Problem& problem) {
  const auto sum = [&](const float* sums, void* target, const kernel::RowStrides& strides,
                       int heads, int seqlen, int row_blocks, float factor) {
    return kernel::FragmentSumParams{.sums = sums,
                                     .target = target,
                                     .target_strides = strides,
                                     .num_heads = heads,
                                     .seqlen = seqlen,
                                     .num_row_blocks = row_blocks,
                                     .factor = factor,
                                     .packed = values_.features.sequences.q,
                                     .dq_semaphores = nullptr};
  };
  const kernel::BackwardParams& p = values_.dkv.base;
  const int kv_blocks = kernel::ceil_div(problem.seqlen_kv, kernel::kRowBlock);
  values_.dq_sum = sum(p.dq_sum, p.dq, p.dq_strides, problem.num_heads_q, problem.seqlen_q,
                       layout_.grid.row_blocks, problem.scale);
  if (spec_.dkv.orders_dq())
    values_.dq_sum.dq_semaphores = at<kernel::uint32>(layout_.dq_semaphores);
  values_.dk_sum = sum(p.dk_sum, p.dk, p.dk_strides, problem.num_heads_kv, problem.seqlen_kv,
                       kv_blocks, problem.scale);
  values_.dv_sum = sum(p.dv_sum, p.dv, p.dv_strides, problem.num_heads_kv, problem.seqlen_kv,
                       kv_blocks, 1.0f / spec_.dkv.probability_scale);
}

// Kernels that compute scores write dbias itself, or the partials that the last kernel adds up.
void BackwardArguments::set_dbias(const problem::BackwardProblem& problem, const Tensor& dbias) {
  const problem::BiasGradient& g = problem.dbias;
  const kernel::BiasGradParams whole{
      .data = dbias.data,
      .batch_stride = g.batch_stride,
      .head_stride = g.head_stride,
      .query_stride = g.query_stride,
      .key_stride = g.key_stride,
      .heads_per_plane = problem.forward.num_heads_q / g.heads,
      .batches_per_plane = problem.forward.run_length(g.batches, g.cycle),
      .stored = nullptr,
      .shares = 1};
  values_.dbias_dbias = values_.dkv_dbias = {whole, batch_cycle(g.cycle)};
  values_.planes = {g.batches, g.heads, g.queries, g.keys};
  const std::optional<DbiasPartials> partials = dbias_partials(spec_, problem, layout_, workspace_);
  if (!partials) return;
  const bool by_dbias = spec_.tunables.dbias_method == DbiasMethod::kKernel;
  kernel::BiasGradParams& written = by_dbias ? values_.dbias_dbias : values_.dkv_dbias;
  written = partials->memory;
  set_bias_sum(problem, *partials, dbias);
}

void BackwardArguments::set_bias_sum(const problem::BackwardProblem& problem,
                                     const DbiasPartials& partials, const Tensor& dbias) {
  const problem::BiasGradient& g = problem.dbias;
  const kernel::BiasGradParams& memory = partials.memory;
  kernel::BiasSumParams& sum = values_.bias_sum;
  values_.bias_sum.cycle = batch_cycle(g.cycle);
  sum.partials = memory.data;
  sum.target = dbias.data;
  sum.batch = {g.batches, partials.batches, memory.batch_stride, g.batch_stride};
  sum.head = {g.heads, partials.heads, memory.head_stride, g.head_stride};
  sum.row = {1, 1, 0, 0};
  sum.column = {g.keys, 1, memory.key_stride, g.key_stride};
  if (g.extent == Extent::kPerQuery) {
    sum.column = {g.scalar ? 1 : g.queries, partials.queries, memory.query_stride, g.query_stride};
  } else if (g.extent == Extent::kPerPair) {
    const int rows = partials.rows_at_once;
    sum.row = {kernel::ceil_div(g.queries, rows), 1, rows * memory.query_stride,
               rows * g.query_stride};
    sum.num_queries = rows > 1 ? g.queries : 0;
  }
  sum.packed = values_.features.sequences.q;
  sum.fragments = spec_.tunables.dbias_method == DbiasMethod::kAdd;
  if (memory.stored != nullptr) {
    sum.stored = {.data = memory.stored,
                  .heads = problem.forward.num_heads_q,
                  .q_tiles = layout_.grid.q_tiles,
                  .kv_tiles = layout_.grid.kv_tiles,
                  .block_q = spec_.dkv.block_q};
  }
  sum.num_column_blocks = kernel::ceil_div(sum.column.size, spec_.bias_sum->block_columns());
  set_shape(BackwardStep::kBiasSum,
            std::int64_t{g.batches} * g.heads * sum.row.size * sum.num_column_blocks);
}

// Thread blocks of path single_tile stay on their SMs.
void BackwardArguments::set_single_tile(const problem::BackwardProblem& problem,
                                        const BackwardArgs& args) {
  const problem::Problem& p = problem.forward;
  values_.single_tile = {.base = values_.dkv.base,
                         .out = args.forward.out.data,
                         .lse = args.forward.lse,
                         .dlse = args.dlse,
                         .out_strides = row_strides(p.out)};
  values_.planes = walked_planes(spec_, problem);
  kernel::Grouped<kernel::BiasGradParams>& walk = values_.dkv_dbias;
  if (spec_.tunables.dbias_method == DbiasMethod::kPerBlock) return;
  walk.shares = layout_.grid.dbias_shares;
  if (spec_.tunables.dbias_method == DbiasMethod::kStore) return;
  walk.batches_per_plane = p.run_length(values_.planes.batches, p.bias.cycle);
  walk.cycle = batch_cycle(p.bias.cycle);
}

void BackwardArguments::set_dsink(const problem::BackwardProblem& problem, const Tensor& dsink) {
  const problem::Problem& p = problem.forward;
  const std::int64_t rows = layout_.grid.padded_rows();
  values_.sink_sum = {.partials = at<float>(layout_.dsink_rows),
                      .target = dsink.data,
                      .batch = {1, p.tensor_batch(), p.num_heads_q * rows, 0},
                      .head = {p.num_heads_q, 1, rows, problem.dsink_stride},
                      .row = {1, 1, 0, 0},
                      .column = {1, p.packed ? layout_.grid.padded_rows() : p.seqlen_q, 1, 0},
                      .num_column_blocks = 1,
                      .fragments = 0,
                      .num_queries = 0,
                      .packed = {}};
  set_shape(BackwardStep::kSinkSum, p.num_heads_q);
}

void BackwardArguments::set_operand_gradients(const problem::BackwardProblem& problem,
                                              const BackwardArgs& args) {
  for (std::size_t n = 0; n < spec_.sites.list.size(); ++n) {
    const SiteLayout& layout = layout_.sites[n];
    values_.sites[n] = site_params(spec_.sites.list[n], layout, problem, workspace_);
    if (spec_.sites.in_dkv != n) set_shape(operand_site_step(n), layout.blocks());
  }
  if (const auto& config = spec_.operand_sites) {
    values_.operand = values_.dbias;
    values_.operand.num_q_tiles = kernel::ceil_div(problem.forward.seqlen_q, config->block_q);
    values_.operand.num_kv_tiles = kernel::ceil_div(problem.forward.seqlen_kv, config->block_kv);
  }
  const OperandSums sums{spec_.sites.list,
                         layout_.sites.data(),
                         layout_.slices.data(),
                         *spec_.operand_sum,
                         problem,
                         args,
                         workspace_};
  set_shape(BackwardStep::kOperandSlices, sums.set_slices(values_.operand_slices));
  set_shape(BackwardStep::kOperandSum, sums.set_gradients(values_.operand_sum));
}

void BackwardArguments::set_shapes(const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  const BackwardGrid& grid = layout_.grid;
  const std::int64_t kv_blocks = grid.kv_planes * kernel::ceil_div(p.seqlen_kv, kernel::kRowBlock);
  set_shape(BackwardStep::kDkv, grid.dkv_blocks);
  if (spec_.has_dq_kernel()) {
    const std::int64_t planes = spec_.dkv.shared_bias ? std::int64_t{values_.planes.batches} *
                                                            values_.planes.heads * grid.dbias_shares
                                                      : grid.q_planes;
    set_shape(BackwardStep::kDq, planes * values_.dq.base.num_q_tiles);
  } else {
    set_shape(BackwardStep::kDqSum, grid.q_planes * grid.row_blocks);
  }
  if (grid.splits > 1) {
    set_shape(BackwardStep::kDkSum, kv_blocks);
    set_shape(BackwardStep::kDvSum, kv_blocks);
  }
  if (spec_.dbias_kernel) {
    set_shape(BackwardStep::kDbias, std::int64_t{values_.planes.batches} * values_.planes.heads *
                                        values_.dbias.num_q_tiles * values_.dbias.num_kv_tiles *
                                        grid.dbias_shares);
  }
}

// The order of the parameters that codegen/render.hpp tells.
void BackwardArguments::list_parameters() {
  codegen::FeatureValues& features = values_.features;
  if (spec_.sites.in_dkv) {
    list(BackwardStep::kDkv,
         {&values_.single_tile, &values_.planes, &values_.sites[*spec_.sites.in_dkv]}, features);
  } else if (spec_.dkv.single_tile) {
    list(BackwardStep::kDkv, {&values_.single_tile, &values_.planes, &values_.dkv_dbias}, features);
  } else if (spec_.dkv.shared_bias) {
    list(BackwardStep::kDkv, {&values_.dkv, &values_.planes, &values_.dkv_dbias}, features);
  } else if (codegen::dbias_in_dkv(spec_.tunables.dbias_method)) {
    list(BackwardStep::kDkv, {&values_.dkv, &values_.dkv_dbias}, features);
  } else {
    list(BackwardStep::kDkv, {&values_.dkv}, features);
  }
  if (spec_.dkv.shared_bias) {
    list(BackwardStep::kDq, {&values_.dq, &values_.planes, &values_.dkv_dbias}, features);
  } else {
    list(BackwardStep::kDq, {&values_.dq}, features);
  }
  list(BackwardStep::kDbias, {&values_.dbias, &values_.planes, &values_.dbias_dbias}, features);
  list(BackwardStep::kMaskToBits, {&values_.mask_to_bits});
  list(BackwardStep::kBlockLists, {&values_.block_lists});
  list(BackwardStep::kGatherKeys, {&values_.gather_keys});
  list(BackwardStep::kScatterKeys, {&values_.scatter_keys});
  list(BackwardStep::kOperandRanges, {&values_.operand_ranges});
  list(BackwardStep::kPreprocess, {&values_.preprocess});
  list(BackwardStep::kDqSum, {&values_.dq_sum});
  list(BackwardStep::kDkSum, {&values_.dk_sum});
  list(BackwardStep::kDvSum, {&values_.dv_sum});
  list(BackwardStep::kBiasSum, {&values_.bias_sum});
  list(BackwardStep::kSinkSum, {&values_.sink_sum});
  for (std::size_t n = 0; n < spec_.sites.list.size(); ++n) {
    if (spec_.sites.in_dkv == n) continue;
    list(operand_site_step(n), {&values_.operand, &values_.sites[n]}, features);
  }
  list(BackwardStep::kOperandSlices, {&values_.operand_slices});
  list(BackwardStep::kOperandSum, {&values_.operand_sum});
}

}  // namespace attnjit::launch
