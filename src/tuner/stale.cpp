#include "tuner/stale.hpp"

#include "tuner/config_zero.hpp"
#include "tuner/contest.hpp"

namespace attnjit::tuner {

template <class PlanKey>
bool contradicts_config_zero(const BasicRecord<PlanKey>& record) {
  const codegen::Arch& arch = codegen::find_arch(record.key.device.arch);
  const auto is_zero_on = [&](const codegen::Arch& each) {
    return record.config == config_zero(record.key.plan, each);
  };
  if (record.verdict == name(Verdict::kGain)) return is_zero_on(arch);
  return !is_zero_on(arch) && !is_zero_on(codegen::without_wgmma(arch));
}

template <class PlanKey>
bool is_stale(const BasicRecord<PlanKey>& record) {
  return record.library != ATTNJIT_VERSION || contradicts_config_zero(record);
}

template bool contradicts_config_zero(const Record&);
template bool contradicts_config_zero(const BackwardRecord&);
template bool is_stale(const Record&);
template bool is_stale(const BackwardRecord&);

}  // namespace attnjit::tuner
