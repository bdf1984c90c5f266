#include "cli/work/replay/call_runner.hpp"

#include "base/fields_json.hpp"

namespace attnjit::cli {
namespace {

Planner planner_of(Session& session, const CallKernels& kernels) {
  return {session.engine(), kernels.config, session.device_classes(), kernels.path};
}

}  // namespace

launch::ForwardPlanSpec plan_call(Session& session, const problem::Problem& problem,
                                  const codegen::Arch& arch, const CallKernels& kernels) {
  return planner_of(session, kernels).forward(problem, arch);
}
launch::BackwardPlanSpec plan_call(Session& session, const problem::BackwardProblem& problem,
                                   const codegen::Arch& arch, const CallKernels& kernels) {
  return planner_of(session, kernels).backward(problem, arch);
}

CallRun describe_run(const launch::ForwardPlanSpec& plan, const problem::Problem&) {
  CallRun run;
  run.config = base::dump_json(base::to_json_value(plan.tunables));
  run.block_q = plan.tunables.block_q;
  run.block_kv = plan.tunables.block_kv;
  return run;
}

CallRun describe_run(const launch::BackwardPlanSpec& plan,
                     const problem::BackwardProblem& problem) {
  CallRun run;
  run.config = base::dump_json(base::to_json_value(plan.tunables));
  run.block_q = plan.tunables.dkv.block_q;
  run.block_kv = plan.tunables.dkv.block_kv;
  if (problem.deterministic) return run;
  if (plan.adds_dq()) run.unordered.emplace_back("dq");
  if (launch::backward_grid(plan, problem).splits > 1) {
    run.unordered.insert(run.unordered.end(), {"dk", "dv"});
  }
  using enum codegen::DbiasMethod;
  const codegen::DbiasMethod dbias = plan.tunables.dbias_method;
  if (dbias == kAdd || dbias == kColumns) run.unordered.emplace_back("dbias");
  if (!plan.sites.list.empty()) run.unordered.emplace_back("operand_gradients");
  return run;
}

}  // namespace attnjit::cli
