// attn_bwd_dq of templates/attnjit/backward/mma, for every architecture.
#include "codegen/kernels/backward_mma.hpp"

namespace attnjit::codegen {

using problem::BackwardFamily;

kernel::BackwardMmaConfig dq_mma_config(const BackwardFamily& f, const BackwardTunables& t) {
  return backward_mma_config(f, t.dq, false);
}

Rule why_dq_unfit(const kernel::BackwardMmaConfig& config, const BackwardTunables&,
                  const BackwardFamily&, const Arch& arch) {
  if (Rule rule = why_tile_unfit("dq", config, config.dq_shared_bytes(), arch)) return rule;
  if (config.key_warps() != 1) return "dq: query_warps must equal num_warps";
  return std::nullopt;
}

Source render_dq(const kernel::BackwardMmaConfig& config, const BackwardFamily& family,
                 const BackwardTunables& tunables, const TemplateSet& templates) {
  return render_backward_mma(
      {.entry = "attn_bwd_dq", .header = "backward/mma/dq.cuh", .function = "backward_dq_mma"},
      config, family, tunables.dq, templates);
}

}  // namespace attnjit::codegen
