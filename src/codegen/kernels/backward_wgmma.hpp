#pragma once
#include "codegen/kernels/rows.hpp"
#include "codegen/kernels/score_kernel.hpp"

/// What the backward kernels by wgmma share, each of which has one width of keys or queries, and as
/// many threads as its warpgroups take.
namespace attnjit::codegen {

/// The rule that `tile` breaks in the kernel of `what`, such as "dkv", that has `config`.
template <class Config>
Rule why_tile_unfit(const char* what, const BackwardTile& tile, const Config& config,
                    const Arch& arch) {
  if (tile.block_kv != config.block_kv) {
    return fmt::format("{}: block_kv must be {} with path wgmma", what, config.block_kv);
  }
  if (tile.num_warps * 32 != config.num_threads() || tile.query_warps != 1 ||
      tile.min_blocks != 1) {
    return fmt::format("{}: num_warps must be {}, query_warps and min_blocks 1 with path wgmma",
                       what, config.num_threads() / 32);
  }
  if (tile.late || tile.fresh != kernel::Fresh::kNone) {
    return fmt::format("{}: late must be false and fresh none with path wgmma", what);
  }
  const Rule rule = why_invalid(config, config.shared_bytes(), arch);
  return rule ? Rule(fmt::format("{}: {}", what, *rule)) : std::nullopt;
}

/// attn_bwd_dkv of a kernel that has keys in the rows of its scores: `kernel` without its entry,
/// parameters and policies, which are set here.
Source render_dkv_wgmma(ScoreKernel kernel, const problem::BackwardFamily& family,
                        const BackwardTunables& tunables, const TemplateSet& templates);

}  // namespace attnjit::codegen
