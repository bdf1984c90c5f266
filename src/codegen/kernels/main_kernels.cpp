#include "codegen/kernels/main_kernels.hpp"

#include "codegen/kernels/rows.hpp"
#include "codegen/mask_form.hpp"

namespace attnjit::codegen {
namespace {

using problem::BackwardFamily;
using problem::Family;

// Kernels read a mask as bits. A mask that the caller has prepared makes no other kernel, nor do
// the strides of its bytes, and so neither makes another title: the cache knows a kernel by its
// text.
Family reading_bits(Family family) {
  if (mask_form(family) == MaskForm::kBits) family.mask_vectorized = true;
  family.mask_prepared = false;
  return family;
}
BackwardFamily reading_bits(BackwardFamily family) {
  family.scores = reading_bits(family.scores);
  return family;
}

}  // namespace

ForwardKernel forward_kernel(const Family& family, const ForwardTunables& tunables) {
  if (tunables.path == Path::kMma) return forward_mma_config(family, tunables);
  if (tunables.path == Path::kSingleTile) return forward_single_tile_config(family, tunables);
  if (tunables.path == Path::kSharedBias) return forward_shared_bias_config(family, tunables);
  return forward_wgmma_config(family, tunables);
}

DkvKernel dkv_kernel(const BackwardFamily& family, const BackwardTunables& tunables) {
  if (tunables.dkv.path == Path::kMma) return dkv_mma_config(family, tunables);
  if (tunables.dkv.path == Path::kSingleTile) return backward_single_tile_config(family, tunables);
  if (tunables.dkv.path == Path::kSharedBias) return shared_bias_config(family, tunables.dkv, true);
  if (separates_dq(family)) return dkv_wgmma_d256_config(family, tunables);
  return dkv_wgmma_config(family, tunables);
}

DqKernel dq_kernel(const BackwardFamily& family, const BackwardTunables& tunables) {
  if (tunables.dq.path == Path::kMma) return dq_mma_config(family, tunables);
  if (tunables.dq.path == Path::kSharedBias) return shared_bias_config(family, tunables.dq, false);
  return dq_wgmma_config(family, tunables);
}

DbiasKernel dbias_kernel(const BackwardFamily& family, const BackwardTunables& tunables) {
  return dbias_mma_config(family, tunables);
}

ForwardFacts facts(const ForwardKernel& kernel) {
  return std::visit([](const auto& config) { return facts(config); }, kernel);
}

DkvFacts facts(const DkvKernel& kernel) {
  return std::visit([](const auto& config) { return facts(config); }, kernel);
}

bool dbias_in_dkv(DbiasMethod method) {
  return stores_dbias(method) || method == DbiasMethod::kColumns || method == DbiasMethod::kAdd;
}

Source render_forward(const Family& of_problem, const ForwardTunables& tunables,
                      const TemplateSet& templates) {
  const Family family = reading_bits(of_problem);
  return std::visit([&](const auto& config) { return render(config, family, tunables, templates); },
                    forward_kernel(family, tunables));
}

Source render_dkv(const BackwardFamily& of_problem, const BackwardTunables& tunables,
                  const TemplateSet& templates) {
  const BackwardFamily family = reading_bits(of_problem);
  return std::visit(
      [&](const auto& config) { return render_dkv(config, family, tunables, templates); },
      dkv_kernel(family, tunables));
}

Source render_dq(const BackwardFamily& of_problem, const BackwardTunables& tunables,
                 const TemplateSet& templates) {
  const BackwardFamily family = reading_bits(of_problem);
  return std::visit(
      [&](const auto& config) { return render_dq(config, family, tunables, templates); },
      dq_kernel(family, tunables));
}

Source render_dbias(const BackwardFamily& of_problem, const BackwardTunables& tunables,
                    const TemplateSet& templates) {
  const BackwardFamily family = reading_bits(of_problem);
  return render_dbias(dbias_kernel(family, tunables), family, tunables, templates);
}

}  // namespace attnjit::codegen
