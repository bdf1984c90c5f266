#include <utility>

#include "check/call_mirror.hpp"
#include "cli/work/replay/call_runner.hpp"
#include "cuda/device.hpp"
#include "cuda/stream.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit::cli {
namespace {

class DeviceCallRunner final : public CallRunner {
 public:
  explicit DeviceCallRunner(Session& session)
      : session_(session), driver_(session.driver()), current_(driver_) {}

  std::string device() const override { return cuda::current_device(driver_).name; }
  bool repeats(const dump::Origin& origin) const override { return origin.device == device(); }

  CallRun run(dump::HostCall& call, const CallKernels& kernels) override {
    call.clear_outputs();
    check::CallMirror mirror(driver_, call);
    const CallRun result = mirror.call().backward()
                               ? run<launch::BackwardPass>(mirror.call().backward_args(), kernels)
                               : run<launch::ForwardPass>(mirror.call().forward_args(), kernels);
    mirror.download_outputs();
    return result;
  }

 private:
  template <class Pass>
  CallRun run(const typename Pass::Args& args, const CallKernels& kernels) {
    const typename Pass::Problem problem = problem::make_problem(args);
    const codegen::Arch arch = runtime::arch_of(cuda::current_device(driver_));
    auto spec = plan_call(session_, problem, arch, kernels);
    const CallRun result = describe_run(spec, problem);
    if (problem.empty()) return result;
    const auto plan =
        runtime::load_plan<Pass>(session_.engine(), driver_, std::move(spec), arch, problem);
    const typename Pass::Layout layout = launch::workspace_layout(plan->spec(), problem);
    const cuda::Stream stream(driver_);
    const cuda::DeviceBuffer workspace(driver_, layout.bytes);
    plan->launch(driver_, problem, args, layout, workspace.data(), stream.get());
    stream.synchronize();
    return result;
  }

  Session& session_;
  const cuda::Driver& driver_;
  const cuda::PrimaryContext current_;
};

}  // namespace

std::unique_ptr<CallRunner> make_device_call_runner(Session& session) {
  return std::make_unique<DeviceCallRunner>(session);
}

}  // namespace attnjit::cli
