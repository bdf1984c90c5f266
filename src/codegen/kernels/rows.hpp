#pragma once
#include "codegen/kernels/main_kernels.hpp"
#include "codegen/tunable_rules.hpp"

/// The functions that each file of codegen/kernels defines of its kernel: its config and facts, the
/// rule that tunables break, as a sentence, and its source.
namespace attnjit::codegen {

/// Whether the copy engine brings the bias to kernels that have keys in rows, see score/bias.cuh.
constexpr bool has_bias_tiles(const problem::Family& f) {
  return f.bias == problem::Extent::kPerPair && f.bias_vectorized &&
         f.bias_dtype != DType::kFloat32;
}

kernel::ForwardMmaConfig forward_mma_config(const problem::Family& family,
                                            const ForwardTunables& tunables);
ForwardFacts facts(const kernel::ForwardMmaConfig& config);
Rule why_unfit(const kernel::ForwardMmaConfig& config, const ForwardTunables& tunables,
               const problem::Family& family, const Arch& arch);
Source render(const kernel::ForwardMmaConfig& config, const problem::Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates);

kernel::ForwardWgmmaConfig forward_wgmma_config(const problem::Family& family,
                                                const ForwardTunables& tunables);
ForwardFacts facts(const kernel::ForwardWgmmaConfig& config);
Rule why_unfit(const kernel::ForwardWgmmaConfig& config, const ForwardTunables& tunables,
               const problem::Family& family, const Arch& arch);
Source render(const kernel::ForwardWgmmaConfig& config, const problem::Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates);

kernel::ForwardSingleTileConfig forward_single_tile_config(const problem::Family& family,
                                                           const ForwardTunables& tunables);
ForwardFacts facts(const kernel::ForwardSingleTileConfig& config);
Rule why_unfit(const kernel::ForwardSingleTileConfig& config, const ForwardTunables& tunables,
               const problem::Family& family, const Arch& arch);
Source render(const kernel::ForwardSingleTileConfig& config, const problem::Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates);

/// The rule that keeps both passes of `family` from Path::kSharedBias, whatever else does.
Rule why_no_strips(const problem::Family& family);

/// Of tiles of 64 rows and all keys.
kernel::ForwardSharedBiasConfig forward_shared_bias_config(const problem::Family& family,
                                                           const ForwardTunables& tunables);
ForwardFacts facts(const kernel::ForwardSharedBiasConfig& config);
Rule why_unfit(const kernel::ForwardSharedBiasConfig& config, const ForwardTunables& tunables,
               const problem::Family& family, const Arch& arch);
Source render(const kernel::ForwardSharedBiasConfig& config, const problem::Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates);

kernel::BackwardMmaConfig dkv_mma_config(const problem::BackwardFamily& family,
                                         const BackwardTunables& tunables);
DkvFacts facts(const kernel::BackwardMmaConfig& config);
Rule why_dkv_unfit(const kernel::BackwardMmaConfig& config, const BackwardTunables& tunables,
                   const problem::BackwardFamily& family, const Arch& arch);
Source render_dkv(const kernel::BackwardMmaConfig& config, const problem::BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates);

kernel::DkvWgmmaConfig dkv_wgmma_config(const problem::BackwardFamily& family,
                                        const BackwardTunables& tunables);
DkvFacts facts(const kernel::DkvWgmmaConfig& config);
Rule why_dkv_unfit(const kernel::DkvWgmmaConfig& config, const BackwardTunables& tunables,
                   const problem::BackwardFamily& family, const Arch& arch);
Source render_dkv(const kernel::DkvWgmmaConfig& config, const problem::BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates);

/// Serves where separates_dq().
kernel::DkvWgmmaD256Config dkv_wgmma_d256_config(const problem::BackwardFamily& family,
                                                 const BackwardTunables& tunables);
DkvFacts facts(const kernel::DkvWgmmaD256Config& config);
Rule why_dkv_unfit(const kernel::DkvWgmmaD256Config& config, const BackwardTunables& tunables,
                   const problem::BackwardFamily& family, const Arch& arch);
Source render_dkv(const kernel::DkvWgmmaD256Config& config, const problem::BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates);

/// Of all gradients.
kernel::BackwardSingleTileConfig backward_single_tile_config(const problem::BackwardFamily& family,
                                                             const BackwardTunables& tunables);
DkvFacts facts(const kernel::BackwardSingleTileConfig& config);
Rule why_dkv_unfit(const kernel::BackwardSingleTileConfig& config, const BackwardTunables& tunables,
                   const problem::BackwardFamily& family, const Arch& arch);
Source render_dkv(const kernel::BackwardSingleTileConfig& config,
                  const problem::BackwardFamily& family, const BackwardTunables& tunables,
                  const TemplateSet& templates);

/// Of dk and dv, with keys at rest, or of dq and dbias.
kernel::BackwardSharedBiasConfig shared_bias_config(const problem::BackwardFamily& family,
                                                    const BackwardTile& tile, bool keys_at_rest);
DkvFacts facts(const kernel::BackwardSharedBiasConfig& config);
Rule why_dkv_unfit(const kernel::BackwardSharedBiasConfig& config, const BackwardTunables& tunables,
                   const problem::BackwardFamily& family, const Arch& arch);
Rule why_dq_unfit(const kernel::BackwardSharedBiasConfig& config, const BackwardTunables& tunables,
                  const problem::BackwardFamily& family, const Arch& arch);
Source render_dkv(const kernel::BackwardSharedBiasConfig& config,
                  const problem::BackwardFamily& family, const BackwardTunables& tunables,
                  const TemplateSet& templates);
Source render_dq(const kernel::BackwardSharedBiasConfig& config,
                 const problem::BackwardFamily& family, const BackwardTunables& tunables,
                 const TemplateSet& templates);

kernel::BackwardMmaConfig dq_mma_config(const problem::BackwardFamily& family,
                                        const BackwardTunables& tunables);
Rule why_dq_unfit(const kernel::BackwardMmaConfig& config, const BackwardTunables& tunables,
                  const problem::BackwardFamily& family, const Arch& arch);
Source render_dq(const kernel::BackwardMmaConfig& config, const problem::BackwardFamily& family,
                 const BackwardTunables& tunables, const TemplateSet& templates);

kernel::DqWgmmaConfig dq_wgmma_config(const problem::BackwardFamily& family,
                                      const BackwardTunables& tunables);
Rule why_dq_unfit(const kernel::DqWgmmaConfig& config, const BackwardTunables& tunables,
                  const problem::BackwardFamily& family, const Arch& arch);
Source render_dq(const kernel::DqWgmmaConfig& config, const problem::BackwardFamily& family,
                 const BackwardTunables& tunables, const TemplateSet& templates);

kernel::BackwardMmaConfig dbias_mma_config(const problem::BackwardFamily& family,
                                           const BackwardTunables& tunables);
Rule why_dbias_unfit(const kernel::BackwardMmaConfig& config, const BackwardTunables& tunables,
                     const Arch& arch);
Source render_dbias(const kernel::BackwardMmaConfig& config, const problem::BackwardFamily& family,
                    const BackwardTunables& tunables, const TemplateSet& templates);

}  // namespace attnjit::codegen
