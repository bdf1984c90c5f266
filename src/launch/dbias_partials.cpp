#include "launch/dbias_partials.hpp"

namespace attnjit::launch {
namespace {

using codegen::DbiasMethod;

// Planes of `queries` rows of `row` elements, one after another, `heads` of them a batch element.
void set_planes(kernel::BiasGradParams& memory, std::int64_t queries, std::int64_t row,
                std::int64_t heads) {
  memory.key_stride = 1;
  memory.query_stride = row;
  memory.head_stride = queries * row;
  memory.batch_stride = heads * memory.head_stride;
}

}  // namespace

std::optional<DbiasPartials> dbias_partials(const BackwardPlanSpec& spec,
                                            const problem::BackwardProblem& problem,
                                            const BackwardLayout& layout, void* workspace) {
  const problem::BiasGradient& g = problem.dbias;
  const problem::Problem& p = problem.forward;
  const auto at = [&](std::size_t offset) { return static_cast<std::byte*>(workspace) + offset; };
  const std::int32_t neighbours = p.run_length(g.batches, g.cycle);
  // A part for each batch element and head, but where the cases below say otherwise.
  DbiasPartials partials{.memory = {.data = at(layout.dbias_partials),
                                    .heads_per_plane = 1,
                                    .batches_per_plane = 1,
                                    .stored = nullptr,
                                    .shares = 1},
                         .batches = neighbours,
                         .heads = p.num_heads_q / g.heads};
  kernel::BiasGradParams& memory = partials.memory;
  const auto share_planes = [&] {
    memory.heads_per_plane = partials.heads;
    memory.batches_per_plane = neighbours;
    partials.batches = partials.heads = 1;
  };
  switch (spec.tunables.dbias_method) {
    case DbiasMethod::kNone:
    case DbiasMethod::kStore:
      return std::nullopt;
    case DbiasMethod::kKernel:
    case DbiasMethod::kPerBlock:
      if (layout.grid.dbias_shares == 1) return std::nullopt;
      set_planes(memory, g.queries, dbias_partial_keys(problem), g.heads);
      share_planes();
      memory.shares = partials.batches = layout.grid.dbias_shares;
      break;
    case DbiasMethod::kRows:
      memory.data = at(layout.ds_rows);
      memory.query_stride = 1;
      memory.head_stride = layout.grid.padded_rows();
      memory.batch_stride = p.packed ? 0 : p.num_heads_q * memory.head_stride;
      if (g.scalar) partials.queries = p.seqlen_q;
      break;
    case DbiasMethod::kColumns:
      set_planes(memory, 1, g.keys, p.num_heads_q);
      memory.query_stride = 0;
      if (dbias_partial_batch(problem) == 1) {
        memory.batch_stride = 0;
        partials.batches = 1;
      }
      break;
    case DbiasMethod::kAdd:
      set_planes(memory, layout.grid.dbias_queries, layout.grid.dbias_keys, g.heads);
      share_planes();
      if (g.heads == 1) memory.head_stride = 0;
      if (g.batches == 1) memory.batch_stride = 0;
      partials.rows_at_once = kBiasFragmentQueries;
      break;
    case DbiasMethod::kPerPlane:
      set_planes(memory, g.queries, dbias_partial_keys(problem), p.num_heads_q);
      memory.stored = reinterpret_cast<kernel::uint8*>(at(layout.dbias_stored));
      partials.rows_at_once = spec.bias_sum->plane_rows();
      break;
  }
  return partials;
}

}  // namespace attnjit::launch
