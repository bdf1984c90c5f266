// attn_bwd_dq of templates/attnjit/backward/dq_wgmma, for sm_90a.
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/backward_wgmma.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const DqWgmmaConfig*) {
  using C = DqWgmmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"scale_first", &C::scale_first}, base::Field{"k_stages", &C::k_stages},
      base::Field{"v_stages", &C::v_stages},
      base::Field{"producer_registers", &C::producer_registers});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {

using problem::BackwardFamily;

kernel::DqWgmmaConfig dq_wgmma_config(const BackwardFamily& f, const BackwardTunables& t) {
  kernel::DqWgmmaConfig config{.dtype = kernel_dtype(f.scores.dtype),
                               .head_dim = f.scores.head_dim,
                               .head_dim_v = f.scores.head_dim_v,
                               .gqa_ratio = f.scores.gqa_ratio,
                               .scale_first = scales_first(f.scores),
                               .k_stages = t.dq.num_stages,
                               .v_stages = t.dq.num_stages,
                               .producer_registers = 24};
  // V is used for a shorter time than K.
  if (config.shared_bytes() > config.kMaxSharedBytes) config.v_stages = 1;
  return config;
}

Rule why_dq_unfit(const kernel::DqWgmmaConfig& config, const BackwardTunables& t,
                  const BackwardFamily& f, const Arch& arch) {
  if (!arch.wgmma) return fmt::format("dq: path: wgmma does not exist on {}; use mma", arch.name);
  if (!f.scores.aligned) {
    return "dq: path: wgmma needs addresses and strides of all tensors to be multiples of 16 "
           "bytes; use mma";
  }
  if (t.dq.block_q != config.block_q) {
    return fmt::format("dq: block_q must be {} with path wgmma", config.block_q);
  }
  return why_tile_unfit("dq", t.dq, config, arch);
}

Source render_dq(const kernel::DqWgmmaConfig& config, const BackwardFamily& family,
                 const BackwardTunables& tunables, const TemplateSet& templates) {
  return render_score_kernel(
      {.entry = "attn_bwd_dq",
       .header = "backward/dq_wgmma/kernel.cuh",
       .function = "backward_dq_wgmma",
       .params = {"DqWgmmaParams", "params"},
       .config_type = "DqWgmmaConfig",
       .config = initialiser(config)},
      fmt::format("attn_bwd_dq {} | {}", describe(family), describe_tile(tunables.dq)),
      family.scores, Pass::kBackward, templates);
}

}  // namespace attnjit::codegen
