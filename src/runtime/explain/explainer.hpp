#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/device.hpp"
#include "explain/changes.hpp"
#include "explain/explanation.hpp"
#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::runtime {

/// Explains calls without running them. Needs neither a GPU nor a compiler.
class Explainer {
 public:
  /// Of calls on `device`; nullopt: a kMeasuredDevice that has no tuning records. `engine` must
  /// outlive this. Throws Error(kUnsupported) for an architecture without kernels.
  Explainer(Engine& engine, const std::optional<cuda::DeviceInfo>& device);

  /// The kernels of a call, what they count, the time that is expected of them, and what changes of
  /// the call would make of it. `args` are checked as a call's are, addresses for null and
  /// alignment alone. Throws as problem::make_problem() and choose_plan().
  explain::Explanation explain(const ForwardArgs& args, const explain::Values& values);
  explain::Explanation explain(const BackwardArgs& args, const explain::Values& values);

 private:
  template <class Pass>
  explain::Explanation explain_pass(const typename Pass::Args& args, const explain::Values& values);
  /// The difference that `change` makes; nullopt where what is left is no call.
  template <class Pass>
  std::optional<explain::Gain> gain(const explain::Explanation& before,
                                    const explain::Change<typename Pass::Args>& change,
                                    const explain::Values& values);

  Engine& engine_;
  const codegen::Arch arch_;
  const std::optional<tuner::DeviceClass> device_;
  const std::string device_name_;
  const explain::Rates* const rates_;  // nullptr where the device has none
  const std::vector<explain::Measurement> rows_;
};

}  // namespace attnjit::runtime
