// attn_bwd_dkv of templates/attnjit/backward/dkv_wgmma_d256, for sm_90a and backwards whose dq has
// a kernel of its own.
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/backward_wgmma.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const DkvWgmmaD256Config*) {
  using C = DkvWgmmaD256Config;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"bias_tiles", &C::bias_tiles},
      base::Field{"num_stages", &C::num_stages},
      base::Field{"producer_registers", &C::producer_registers});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {

using problem::BackwardFamily;

kernel::DkvWgmmaD256Config dkv_wgmma_d256_config(const BackwardFamily& f,
                                                 const BackwardTunables& t) {
  return {.dtype = kernel_dtype(f.scores.dtype),
          .head_dim = f.scores.head_dim,
          .head_dim_v = f.scores.head_dim_v,
          .gqa_ratio = f.scores.gqa_ratio,
          .scale_first = scales_first(f.scores),
          .bias_tiles = has_bias_tiles(f.scores),
          .num_stages = t.dkv.num_stages,
          .producer_registers = 40};
}

DkvFacts facts(const kernel::DkvWgmmaD256Config& config) {
  return {.block_q = config.block_q,
          .block_kv = config.block_kv,
          .scale_first = config.scale_first,
          .probability_scale = config.probability_scale(),
          .keys_in_rows = true};
}

Rule why_dkv_unfit(const kernel::DkvWgmmaD256Config& config, const BackwardTunables& t,
                   const BackwardFamily& f, const Arch& arch) {
  if (const Rule rule = why_no_wgmma(f, arch)) return fmt::format("dkv: path: {}; use mma", *rule);
  if (t.dq_method != DqMethod::kKernel) {
    return "dq_method must be kernel where dkv has path wgmma and block_kv 64";
  }
  if (t.dkv.block_q != config.block_q) {
    return fmt::format("dkv: block_q must be {} with path wgmma and block_kv 64", config.block_q);
  }
  return why_tile_unfit("dkv", t.dkv, config, arch);
}

Source render_dkv(const kernel::DkvWgmmaD256Config& config, const BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates) {
  return render_dkv_wgmma({.header = "backward/dkv_wgmma_d256/kernel.cuh",
                           .function = "backward_dkv_wgmma_d256",
                           .config_type = "DkvWgmmaD256Config",
                           .config = initialiser(config)},
                          family, tunables, templates);
}

}  // namespace attnjit::codegen
