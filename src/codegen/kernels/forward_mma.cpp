// attn_fwd of templates/attnjit/forward/mma, for every architecture.
#include "codegen/kernel_dtype.hpp"
#include "codegen/kernels/rows.hpp"
#include "codegen/kernels/score_kernel.hpp"
#include "codegen/literals.hpp"

namespace attnjit::kernel {

constexpr auto fields(const ForwardMmaConfig*) {
  using C = ForwardMmaConfig;
  return base::fields_of<C>(
      base::Field{"dtype", &C::dtype}, base::Field{"head_dim", &C::head_dim},
      base::Field{"head_dim_v", &C::head_dim_v}, base::Field{"gqa_ratio", &C::gqa_ratio},
      base::Field{"aligned", &C::aligned}, base::Field{"scale_first", &C::scale_first},
      base::Field{"pack_gqa", &C::pack_gqa}, base::Field{"block_q", &C::block_q},
      base::Field{"block_kv", &C::block_kv}, base::Field{"num_stages", &C::num_stages},
      base::Field{"num_warps", &C::num_warps}, base::Field{"min_blocks", &C::min_blocks},
      base::Field{"softmax", &C::softmax});
}

}  // namespace attnjit::kernel

namespace attnjit::codegen {

using problem::Family;

kernel::ForwardMmaConfig forward_mma_config(const Family& f, const ForwardTunables& t) {
  return {.dtype = kernel_dtype(f.dtype),
          .head_dim = f.head_dim,
          .head_dim_v = f.head_dim_v,
          .gqa_ratio = f.gqa_ratio,
          .aligned = f.aligned,
          .scale_first = scales_first(f),
          .pack_gqa = t.pack_gqa,
          .block_q = t.block_q,
          .block_kv = t.block_kv,
          .num_stages = t.num_stages,
          .num_warps = t.num_warps,
          .min_blocks = t.min_blocks,
          .softmax = t.softmax};
}

ForwardFacts facts(const kernel::ForwardMmaConfig& config) {
  return {config.block_q, config.block_kv, config.pack_gqa_heads(), config.scale_first};
}

Rule why_unfit(const kernel::ForwardMmaConfig& config, const ForwardTunables&, const Family&,
               const Arch& arch) {
  return why_invalid(config, config.shared_bytes(), arch);
}

Source render(const kernel::ForwardMmaConfig& config, const Family& family,
              const ForwardTunables& tunables, const TemplateSet& templates) {
  return render_score_kernel(
      {.entry = "attn_fwd",
       .header = "forward/mma/kernel.cuh",
       .function = "forward_mma",
       .params = {"ForwardParams", "params"},
       .config_type = "ForwardMmaConfig",
       .config = initialiser(config),
       .packs_heads = config.pack_gqa_heads() > 1},
      fmt::format("attn_fwd {} | {}", describe(family), describe_tile(tunables)), family,
      Pass::kForward, templates);
}

}  // namespace attnjit::codegen
