// attn_bwd_dkv of templates/attnjit/backward/mma, for every architecture.
#include "codegen/kernels/backward_mma.hpp"
#include "codegen/kernels/dbias_policy.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;

std::string dbias_policy(const BackwardFamily& f, const BackwardTunables& t) {
  switch (t.dbias_method) {
    case DbiasMethod::kStore:
      return dbias_argument(bias_grad_store(f), false);
    case DbiasMethod::kColumns:
      return f.scores.bias_packs_keys
                 ? "PackedKeysGrad<BiasGradColumns<kConfig.warp_keys() / 32>>(dbias)"
                 : "BiasGradColumns<kConfig.warp_keys() / 32>(dbias)";
    case DbiasMethod::kAdd:
      return dbias_argument("BiasGradAdd", f.dbias_groups_batch);
    case DbiasMethod::kNone:
    case DbiasMethod::kRows:
    case DbiasMethod::kKernel:
    case DbiasMethod::kPerPlane:  // unfit
    case DbiasMethod::kPerBlock:  // unfit
      break;
  }
  return "NoBiasGrad{}";
}

}  // namespace

kernel::BackwardMmaConfig dkv_mma_config(const BackwardFamily& f, const BackwardTunables& t) {
  return backward_mma_config(f, t.dkv, t.dq_method == DqMethod::kAdd);
}

DkvFacts facts(const kernel::BackwardMmaConfig& config) {
  return {config.block_q, config.block_kv, config.scale_first, config.probability_scale()};
}

Rule why_dkv_unfit(const kernel::BackwardMmaConfig& config, const BackwardTunables& t,
                   const BackwardFamily& f, const Arch& arch) {
  if (f.deterministic && t.dq_method == DqMethod::kAdd) {
    return "dq_method: add is not deterministic with path mma; use kernel";
  }
  if (t.dq_method == DqMethod::kOwnKvHead || t.dq_method == DqMethod::kFirstStores) {
    return fmt::format("dq_method: {} needs path wgmma; use add or kernel",
                       base::word(t.dq_method));
  }
  return why_tile_unfit("dkv", config, config.shared_bytes(), arch);
}

Source render_dkv(const kernel::BackwardMmaConfig& config, const BackwardFamily& family,
                  const BackwardTunables& tunables, const TemplateSet& templates) {
  ScoreKernel kernel{.entry = "attn_bwd_dkv",
                     .header = "backward/mma/dkv.cuh",
                     .function = "backward_dkv_mma",
                     .policies = {dbias_policy(family, tunables)}};
  const bool grouped = adds_to_groups(family, tunables);
  if (dbias_in_dkv(tunables.dbias_method)) {
    kernel.more = {dbias_parameter(grouped)};
    kernel.headers = {"score/bias_grad.cuh"};
  }
  if (grouped) kernel.headers.push_back(kBatchGroupsHeader);
  return render_backward_mma(kernel, config, family, tunables.dkv, templates);
}

}  // namespace attnjit::codegen
