#include "launch/forward_plan_spec.hpp"

#include "launch/mask_tiles.hpp"

namespace attnjit::launch {
namespace {

std::size_t align_up(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

}  // namespace

ForwardPlanSpec make_forward_plan_spec(const problem::Family& family,
                                       const kernel::ForwardConfig& config,
                                       std::optional<kernel::MaskPackConfig> mask_pack,
                                       const codegen::TemplateSet& templates) {
  ForwardPlanSpec spec{family, config, mask_pack, {}};
  if (mask_pack) {
    spec.steps.push_back({codegen::render_mask_pack(*mask_pack, templates),
                          static_cast<unsigned>(mask_pack->num_threads()), 0});
  }
  spec.steps.push_back({codegen::render_forward(family, config, templates),
                        static_cast<unsigned>(config.num_threads()),
                        static_cast<unsigned>(config.shared_bytes())});
  return spec;
}

MaskTiles mask_tiles(const kernel::MaskPackConfig& config, const problem::Problem& problem) {
  MaskTiles tiles;
  tiles.planes = std::int64_t{problem.mask.batched ? problem.batch : 1} * problem.mask.num_heads;
  tiles.rows = config.per_pair ? problem.seqlen_q : 1;
  tiles.q_tiles = kernel::ceil_div(tiles.rows, config.rows());
  tiles.kv_tiles = kernel::ceil_div(problem.seqlen_kv, config.block_kv);
  tiles.words_per_row = tiles.kv_tiles * (config.block_kv / 32);
  return tiles;
}

WorkspaceLayout workspace_layout(const ForwardPlanSpec& spec, const problem::Problem& problem) {
  WorkspaceLayout layout;
  if (!spec.mask_pack) return layout;
  const MaskTiles tiles = mask_tiles(*spec.mask_pack, problem);
  layout.classes = align_up(static_cast<std::size_t>(tiles.words()) * sizeof(std::uint32_t));
  layout.bytes = layout.classes + align_up(static_cast<std::size_t>(tiles.classes()));
  return layout;
}

}  // namespace attnjit::launch
