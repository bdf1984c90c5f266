#pragma once
#include "codegen/kernels/rows.hpp"
#include "codegen/kernels/score_kernel.hpp"

/// Parts common to the backward kernels by wgmma, each of which has one width of keys or queries,
/// and as many threads as its warpgroups take.
namespace attnjit::codegen {

/// The rule that `tile` breaks in the kernel of `what`, such as "dkv", that has `config`.
template <class Config>
Rule why_tile_unfit(const char* what, const BackwardTile& tile, const Config& config,
                    const Arch& arch) {
  if (tile.block_kv != config.block_kv) {
    return fmt::format("{}: block_kv must be {} with path wgmma", what, config.block_kv);
  }
  Rule rule = why_lacking(tile);
  if (!rule) rule = why_invalid(config, config.shared_bytes(), arch);
  return rule ? Rule(fmt::format("{}: {}", what, *rule)) : std::nullopt;
}

/// attn_bwd_dkv of a kernel that has keys in the rows of its scores: `kernel` without its entry,
/// parameters and policies, which are set here.
Source render_dkv_wgmma(ScoreKernel kernel, const problem::BackwardFamily& family,
                        const BackwardTunables& tunables, const TemplateSet& templates);

}  // namespace attnjit::codegen
