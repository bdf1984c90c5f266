#include "runtime/load/fault_id.hpp"

#include "base/fields_json.hpp"

namespace attnjit::runtime {

template <class Spec>
std::string fault_id(const Engine& engine, const Spec& spec, const codegen::Arch& arch,
                     const tuner::DeviceClass& device) {
  base::TaggedHash hash;
  hash.field("device", base::dump_json(base::to_json_value(device)));
  hash.field("config", base::dump_json(base::to_json_value(spec.tunables)));
  for (const launch::StepSpec& step : spec.steps) {
    hash.field("kernel", engine.key(step.source, arch).text());
  }
  return base::hex(hash.digest());
}

template std::string fault_id(const Engine&, const launch::ForwardPlanSpec&, const codegen::Arch&,
                              const tuner::DeviceClass&);
template std::string fault_id(const Engine&, const launch::BackwardPlanSpec&, const codegen::Arch&,
                              const tuner::DeviceClass&);

}  // namespace attnjit::runtime
