#include "launch/forward_plan_spec.hpp"

#include <algorithm>
#include <limits>

#include "attnjit/error.hpp"
#include "codegen/auxiliary.hpp"
#include "launch/mask_tiles.hpp"

namespace attnjit::launch {
namespace {

// Registers are handed out for config.min_blocks thread blocks per SM; shared memory may allow
// fewer.
int blocks_per_sm(const kernel::ForwardConfig& config, const codegen::Arch& arch) {
  constexpr int kReserved = 1024;  // bytes of shared memory that the system takes per block
  const int by_memory = arch.shared_bytes_per_sm / (config.shared_bytes() + kReserved);
  return std::clamp(by_memory, 1, config.min_blocks);
}

// How many ways to split `tiles` tiles of keys, when `blocks` thread blocks would have one way and
// the device holds `slots` at a time. Minimises the tiles that pass one after another on the
// busiest slot; a block's start and end take about two tiles' time, the combine step about six
// (H200, decode, 2026-11-21). The best count for a number of rounds is the largest that fits them.
std::int32_t choose_splits(std::int64_t blocks, std::int64_t tiles, std::int64_t slots) {
  constexpr std::int64_t kStartTiles = 2, kCombineTiles = 6, kRounds = 4, kMost = 1024;
  if (blocks == 0 || blocks > kRounds * slots) return 1;
  const auto rounds = [&](std::int64_t b) { return (b + slots - 1) / slots; };
  std::int64_t best = 1;
  std::int64_t best_cost = rounds(blocks) * (tiles + kStartTiles);
  for (std::int64_t r = 1; r <= kRounds; ++r) {
    const std::int64_t splits = std::min({r * slots / blocks, tiles, kMost});
    if (splits <= best) continue;
    const std::int64_t cost = r * ((tiles + splits - 1) / splits + kStartTiles) + kCombineTiles;
    if (cost < best_cost) {
      best = splits;
      best_cost = cost;
    }
  }
  return static_cast<std::int32_t>(best);
}

// Under a causal mask the last rows of a plane take longest, so the row tiles of several planes are
// walked together, long ones first: the device runs dry at the end of a section only. K and V of a
// section should stay in L2; 16 MiB is four heads of 8192 keys (D128).
std::int32_t choose_section(const problem::Problem& problem, std::int64_t planes_per_kv_head,
                            std::int64_t planes) {
  constexpr std::int64_t kSectionBytes = 16 << 20;
  if (!problem.bounded_right || problem.bounded_left) return 1;
  const std::int64_t kv_head_bytes =
      std::int64_t{2} * problem.seqlen_kv * (problem.head_dim + problem.head_dim_v);
  const std::int64_t kv_heads = kSectionBytes / std::max<std::int64_t>(kv_head_bytes, 1);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(kv_heads * planes_per_kv_head, 1,
                                                            std::max<std::int64_t>(planes, 1)));
}

std::size_t align_up(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

}  // namespace

ForwardPlanSpec make_forward_plan_spec(const problem::Family& family,
                                       const kernel::ForwardConfig& config,
                                       const codegen::Arch& arch,
                                       const codegen::TemplateSet& templates) {
  ForwardPlanSpec spec;
  spec.family = family;
  spec.config = config;
  spec.mask_pack = codegen::mask_pack_config(family, config);
  spec.combine = codegen::forward_combine_config(config);
  spec.block_slots = arch.sm_count * blocks_per_sm(config, arch);
  if (spec.mask_pack) {
    spec.steps.push_back({codegen::render_mask_pack(*spec.mask_pack, templates),
                          static_cast<unsigned>(spec.mask_pack->num_threads()), 0});
  }
  spec.steps.push_back({codegen::render_forward(family, config, templates),
                        static_cast<unsigned>(config.num_threads()),
                        static_cast<unsigned>(config.shared_bytes())});
  spec.steps.push_back({codegen::render_forward_combine(spec.combine, templates),
                        static_cast<unsigned>(spec.combine.num_threads()),
                        static_cast<unsigned>(spec.combine.shared_bytes()), arch.dependent_launch});
  return spec;
}

ForwardGrid forward_grid(const ForwardPlanSpec& spec, const problem::Problem& problem) {
  const kernel::ForwardConfig& config = spec.config;
  const std::int64_t rows = std::int64_t{problem.seqlen_q} * config.packed_heads();
  if (rows > std::numeric_limits<std::int32_t>::max() - config.block_q) {
    throw Error(ErrorKind::kInvalidProblem,
                "pack_heads is for short queries; leave it out of the config here");
  }
  ForwardGrid grid;
  grid.q_tiles = kernel::ceil_div(static_cast<std::int32_t>(rows), config.block_q);
  grid.planes = std::int64_t{problem.batch} * problem.num_heads_q / config.packed_heads();
  grid.splits =
      choose_splits(grid.planes * grid.q_tiles,
                    kernel::ceil_div(problem.seqlen_kv, config.block_kv), spec.block_slots);
  if (grid.splits == 1) {
    grid.section_planes =
        choose_section(problem, problem.gqa_ratio() / config.packed_heads(), grid.planes);
  }
  return grid;
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
  WorkspaceLayout layout{.grid = forward_grid(spec, problem)};
  const auto take = [&](std::int64_t bytes) {
    const std::size_t offset = layout.bytes;
    layout.bytes += align_up(static_cast<std::size_t>(bytes));
    return offset;
  };
  if (spec.mask_pack) {
    const MaskTiles tiles = mask_tiles(*spec.mask_pack, problem);
    layout.words = take(tiles.words() * std::int64_t{sizeof(std::uint32_t)});
    layout.classes = take(tiles.classes());
  }
  if (layout.grid.splits > 1) {
    const std::int64_t partials =
        std::int64_t{problem.batch} * problem.num_heads_q * problem.seqlen_q * layout.grid.splits;
    const int columns = spec.combine.padded_head_dim_v();
    layout.partial_out = take(partials * columns * std::int64_t{sizeof(float)});
    layout.partial_lse = take(partials * std::int64_t{sizeof(float)});
  }
  return layout;
}

}  // namespace attnjit::launch
