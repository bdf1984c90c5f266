#include "launch/forward_arguments.hpp"

#include <fmt/format.h>

#include <limits>

#include "attnjit/error.hpp"
#include "launch/grid.hpp"
#include "launch/mask_tiles.hpp"

namespace attnjit::launch {
namespace {

kernel::OperandParams operand_params(const problem::Operand& operand, const Tensor& tensor,
                                     const problem::Problem& problem) {
  return {tensor.data,          operand.batch_stride, operand.head_stride,
          operand.query_stride, operand.key_stride,   problem.num_heads_q / operand.num_heads};
}

cuda::LaunchShape make_shape(const StepSpec& step, std::int64_t blocks) {
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("{} needs {} thread blocks; at most {} fit a launch; split the batch",
                            step.source.entry, blocks, std::numeric_limits<std::int32_t>::max()));
  }
  return {{static_cast<unsigned>(blocks), 1, 1}, step.threads, step.shared_bytes, step.overlaps};
}

}  // namespace

ForwardArguments::ForwardArguments(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                   const ForwardArgs& args, const WorkspaceLayout& layout,
                                   void* workspace)
    : forward_step_(spec.forward_step()) {
  auto* const base = static_cast<std::byte*>(workspace);
  set_forward(spec, problem, args);
  set_splits(spec, problem, layout, base);
  using problem::Extent;
  if (problem.mask.extent != Extent::kAbsent) set_mask(spec, problem, args, layout, base);
  if (problem.bias.extent != Extent::kAbsent)
    values_.bias = operand_params(problem.bias, *args.bias, problem);
  values_.band = {problem.left, problem.right, problem.bottom_right};
  values_.seqlens = {args.seqlens_q, args.seqlens_kv};
  list_parameters(spec.family);
}

void ForwardArguments::set_forward(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                   const ForwardArgs& args) {
  kernel::ForwardParams& p = values_.forward;
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
  p.exponent_scale = spec.config.scale_first ? kernel::kLog2E : problem.scale * kernel::kLog2E;
}

void ForwardArguments::set_splits(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                  const WorkspaceLayout& layout, std::byte* workspace) {
  const ForwardGrid& grid = layout.grid;
  kernel::ForwardParams& p = values_.forward;
  p.num_q_tiles = grid.q_tiles;
  p.num_splits = grid.splits;
  p.section_planes = grid.section_planes;
  p.num_planes = static_cast<kernel::int32>(grid.planes);  // no more than there are blocks
  shapes_[forward_step_] = make_shape(spec.steps[forward_step_], grid.blocks());
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
                     .num_splits = p.num_splits};
  shapes_[spec.combine_step()] =
      make_shape(spec.steps[spec.combine_step()],
                 std::int64_t{problem.batch} * problem.num_heads_q * problem.seqlen_q);
}

void ForwardArguments::set_mask(const ForwardPlanSpec& spec, const problem::Problem& problem,
                                const ForwardArgs& args, const WorkspaceLayout& layout,
                                std::byte* workspace) {
  const problem::Operand& mask = problem.mask;
  const int heads_per_plane = problem.num_heads_q / mask.num_heads;
  if (!spec.mask_pack) {
    values_.row_mask = operand_params(mask, *args.mask, problem);
    return;
  }
  const MaskTiles tiles = mask_tiles(*spec.mask_pack, problem);
  auto* const words = reinterpret_cast<kernel::uint32*>(workspace + layout.words);
  auto* const classes = reinterpret_cast<kernel::uint8*>(workspace + layout.classes);
  values_.mask_pack = {.mask = static_cast<const kernel::uint8*>(args.mask->data),
                       .words = words,
                       .classes = classes,
                       .batch_stride = mask.batch_stride,
                       .head_stride = mask.head_stride,
                       .query_stride = mask.query_stride,
                       .key_stride = mask.key_stride,
                       .num_heads = mask.num_heads,
                       .seqlen_q = tiles.rows,
                       .seqlen_kv = problem.seqlen_kv,
                       .words_per_row = tiles.words_per_row,
                       .num_q_tiles = tiles.q_tiles,
                       .num_kv_tiles = tiles.kv_tiles};
  values_.packed_mask = {.words = words,
                         .classes = classes,
                         .words_per_plane = std::int64_t{tiles.rows} * tiles.words_per_row,
                         .classes_per_plane = std::int64_t{tiles.q_tiles} * tiles.kv_tiles,
                         .planes_per_batch = mask.batched ? mask.num_heads : 0,
                         .heads_per_plane = heads_per_plane,
                         .words_per_row = tiles.words_per_row,
                         .num_kv_tiles = tiles.kv_tiles};
  shapes_[0] = make_shape(spec.steps[0], tiles.classes());
}

// The order of codegen::forward_features(), which wrote the kernel's parameter list.
void ForwardArguments::list_parameters(const problem::Family& family) {
  using problem::Extent;
  void** next = forward_list_;
  *next++ = &values_.forward;
  if (family.seqlens) *next++ = &values_.seqlens;
  if (family.bias != Extent::kAbsent) *next++ = &values_.bias;
  if (family.mask == Extent::kPerQuery) {
    *next++ = &values_.row_mask;
  } else if (family.mask != Extent::kAbsent) {
    *next++ = &values_.packed_mask;
  }
  if (family.bounded_left || family.bounded_right) *next++ = &values_.band;
  pack_list_[0] = &values_.mask_pack;
  combine_list_[0] = &values_.combine;
}

}  // namespace attnjit::launch
