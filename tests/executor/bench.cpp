#include "bench.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numbers>
#include <utility>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "executor/violation.hpp"

namespace attnjit::executor_test {
namespace {

// Of the problems of a case. Multiples of an irrational number, whose fractions lie evenly between
// 0 and 1, choose which: 0, 5, 17, 22, 29, 34, 46, 51, ..., which no loop within a case follows.
constexpr double kShareInCi = 0.125;

std::filesystem::path directory() { return ATTNJIT_TEST_KERNELS; }

template <class Tunables>
Tunables patched(const Tunables& zero, const std::string& json) {
  return base::patched(zero, base::parse_patch<Tunables>(base::parse_json(json), "config"));
}

}  // namespace

Bench::Bench(codegen::TemplateSet templates, unsigned jobs, std::string compiler)
    : templates_(std::move(templates)),
      executor_({.compiler = std::move(compiler),
                 .cache = {.directory = directory() / "cache",
                           .lock_directory = directory() / "locks",
                           .limits = {.bytes = std::uint64_t{8} << 30}},
                 .templates = templates_,
                 .jobs = jobs},
                log_) {}

bool Bench::leaves_out() {
  if (std::getenv("ATTNJIT_EVERY_PROBLEM") != nullptr) return false;
  double whole;
  return std::modf(asked_++ * std::numbers::sqrt2, &whole) >= kShareInCi;
}

std::string Bench::forward(const instance::ProblemSpec& spec, const codegen::Arch& arch,
                           const std::string& config_json) {
  instance::HostProblem host(spec, 1);
  const std::string report = run_forward(host, arch, config_json);
  return report.empty() ? check::judge_forward(host, reference::Rows::every(), 1).text : report;
}

std::string Bench::run_forward(instance::HostProblem& host, const codegen::Arch& arch,
                               const std::string& config_json) {
  host.poison_outputs();
  ForwardArgs args = host.args();
  executor::PreparedCall prepared(executor_, templates_);
  try {
    if (host.spec().prepare_mask) prepared.prepare(args, false);
  } catch (const executor::Violation& violation) {
    return violation.what();
  }
  const problem::Problem problem = problem::make_problem(args);
  const problem::PlanKey key = problem::plan_key(problem);
  const auto config = patched(zero(key, arch, config_json), config_json);
  if (const auto rule = codegen::why_unfit(config, key.family, arch)) return *rule;
  const auto plan = launch::make_forward_plan_spec(key.family, config, arch, templates_);
  try {
    executor_.forward(plan, problem, args);
  } catch (const executor::Violation& violation) {
    return violation.what();
  }
  return "";
}

std::string Bench::backward(const instance::ProblemSpec& spec, const codegen::Arch& arch,
                            const std::string& config_json) {
  instance::HostProblem host(spec, 1);
  const std::string report = run_backward(host, arch, config_json);
  return report.empty() ? check::judge_backward(host, reference::Planes::every(), 1).text : report;
}

std::string Bench::run_backward(instance::HostProblem& host, const codegen::Arch& arch,
                                const std::string& config_json) {
  host.poison_outputs();
  BackwardArgs args = host.backward_args();
  executor::PreparedCall prepared(executor_, templates_);
  try {
    if (host.spec().prepare_mask) prepared.prepare(args.forward, true);
  } catch (const executor::Violation& violation) {
    return violation.what();
  }
  const problem::BackwardProblem problem = problem::make_problem(args);
  const problem::BackwardPlanKey key = problem::plan_key(problem);
  const auto tunables = patched(zero(key, arch, config_json), config_json);
  if (const auto rule = codegen::why_unfit(tunables, key.family, arch)) return *rule;
  const auto plan = launch::make_backward_plan_spec(key.family, tunables, arch, templates_);
  try {
    executor_.backward(plan, problem, args);
  } catch (const executor::Violation& violation) {
    return violation.what();
  }
  return "";
}

}  // namespace attnjit::executor_test
