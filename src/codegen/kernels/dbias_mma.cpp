// attn_bwd_dbias of templates/attnjit/backward/mma, for every architecture.
#include "codegen/kernels/backward_mma.hpp"
#include "codegen/kernels/dbias_policy.hpp"

namespace attnjit::codegen {

using problem::BackwardFamily;

kernel::BackwardMmaConfig dbias_mma_config(const BackwardFamily& f, const BackwardTunables& t) {
  return backward_mma_config(f, t.dbias, false);
}

Rule why_dbias_unfit(const kernel::BackwardMmaConfig& config, const BackwardTunables& t,
                     const Arch& arch) {
  if (t.dbias.path != Path::kMma) {
    return "dbias: path: wgmma has no kernel of dbias; use mma";
  }
  return why_tile_unfit("dbias", config, config.dbias_shared_bytes(), arch);
}

Source render_dbias(const kernel::BackwardMmaConfig& config, const BackwardFamily& family,
                    const BackwardTunables& tunables, const TemplateSet& templates) {
  const bool grouped = family.dbias_groups_batch;
  ScoreKernel kernel{.entry = "attn_bwd_dbias",
                     .header = "backward/mma/dbias.cuh",
                     .function = "backward_dbias_mma",
                     .more = {{"BiasPlanes", "planes"}, dbias_parameter(grouped)},
                     .policies = {"planes", dbias_argument(bias_grad_store(family), grouped)},
                     .headers = {"score/bias_grad.cuh"}};
  if (grouped) kernel.headers.push_back(kBatchGroupsHeader);
  return render_backward_mma(kernel, config, family, tunables.dbias, templates);
}

}  // namespace attnjit::codegen
