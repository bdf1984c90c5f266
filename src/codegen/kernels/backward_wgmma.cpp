#include "codegen/kernels/backward_wgmma.hpp"

#include "codegen/kernels/dbias_policy.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;

std::string key_dbias_policy(const BackwardFamily& f, const BackwardTunables& t) {
  switch (t.dbias_method) {
    case DbiasMethod::kStore:
      return "KeyBiasGradStore(dbias)";
    case DbiasMethod::kPerPlane:
      return "KeyBiasGradPerPlane(dbias)";
    case DbiasMethod::kColumns:
      return f.scores.bias_packs_keys ? "PackedKeysSums<KeyBiasGradColumns>(dbias)"
                                      : "KeyBiasGradColumns(dbias)";
    case DbiasMethod::kAdd:
      return dbias_argument("KeyBiasGradAdd", f.dbias_groups_batch);
    case DbiasMethod::kNone:
    case DbiasMethod::kRows:
    case DbiasMethod::kKernel:
    case DbiasMethod::kPerBlock:  // unfit
      break;
  }
  return "NoKeyBiasGrad{}";
}

}  // namespace

Source render_dkv_wgmma(ScoreKernel kernel, const BackwardFamily& family,
                        const BackwardTunables& tunables, const TemplateSet& templates) {
  kernel.entry = "attn_bwd_dkv";
  kernel.params = {"DkvWgmmaParams", "params"};
  kernel.policies = {key_dbias_policy(family, tunables)};
  const bool grouped = adds_to_groups(family, tunables);
  if (dbias_in_dkv(tunables.dbias_method)) kernel.more = {dbias_parameter(grouped)};
  if (grouped) kernel.headers = {kBatchGroupsHeader};
  return render_score_kernel(
      kernel, fmt::format("attn_bwd_dkv {} | {}", describe(family), describe_tile(tunables.dkv)),
      family.scores, Pass::kBackward, templates);
}

}  // namespace attnjit::codegen
