#include "cli/work/executor_options.hpp"
#include "cli/work/replay/call_runner.hpp"

#ifdef ATTNJIT_HAS_EXECUTOR
#include "executor/violation.hpp"

namespace attnjit::cli {
namespace {

class CpuCallRunner final : public CallRunner {
 public:
  explicit CpuCallRunner(Session& session)
      : session_(session), executor_(executor_options(session), session.engine().log()) {}

  std::string device() const override { return "CPU executor"; }
  bool repeats(const dump::Origin&) const override { return false; }

  CallRun run(dump::HostCall& call, const CallKernels& kernels) override {
    call.clear_outputs();
    if (call.call().backward()) {
      const auto& args = call.call().backward_args();
      return run(args, kernels, [this](const auto&... rest) { executor_.backward(rest...); });
    }
    const auto& args = call.call().forward_args();
    return run(args, kernels, [this](const auto&... rest) { executor_.forward(rest...); });
  }

 private:
  template <class Args, class Execute>
  CallRun run(const Args& args, const CallKernels& kernels, const Execute& execute) {
    const auto problem = problem::make_problem(args);
    const codegen::Arch& arch = codegen::find_arch(kernels.arch);
    const auto plan = plan_call(session_, problem, arch, kernels);
    CallRun result = describe_run(plan, problem);
    if (problem.empty()) return result;
    try {
      execute(plan, problem, args);
    } catch (const executor::Violation& violation) {
      result.violation = violation.what();
    }
    return result;
  }

  Session& session_;
  executor::Executor executor_;
};

}  // namespace

std::unique_ptr<CallRunner> make_cpu_call_runner(Session& session) {
  return std::make_unique<CpuCallRunner>(session);
}

}  // namespace attnjit::cli

#else

namespace attnjit::cli {

std::unique_ptr<CallRunner> make_cpu_call_runner(Session&) { refuse_executor(); }

}  // namespace attnjit::cli

#endif
