#pragma once
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "check/verdict.hpp"
#include "executor/prepared_call.hpp"
#include "executor/violation.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::executor_test {

/// Configuration 0 on path mma, or on path single_tile where `config_json` names that.
template <class PlanKey>
auto zero(const PlanKey& key, const codegen::Arch& arch, const std::string& config_json) {
  const bool single_tile = config_json.find("single_tile") != std::string::npos;
  return tuner::config_zero_on(single_tile ? codegen::Path::kSingleTile : codegen::Path::kMma, key,
                               arch);
}

/// An executor, and what its kernels are made from.
class Bench {
 public:
  /// Compiled kernels are kept in the build directory: cases have many in common, and a mutation
  /// changes one of a plan.
  explicit Bench(codegen::TemplateSet templates = {}, unsigned jobs = 1, std::string compiler = {})
      : templates_(std::move(templates)),
        executor_({.compiler = std::move(compiler),
                   .cache = {.directory = directory() / "cache",
                             .lock_directory = directory() / "locks",
                             .limits = {.bytes = std::uint64_t{8} << 30}},
                   .templates = templates_,
                   .jobs = jobs},
                  log_) {}

  executor::Executor& executor() { return executor_; }
  const codegen::TemplateSet& templates() const { return templates_; }

  /// Whether CI leaves out the problem, or the mutation, that comes next. Of the first eight of a
  /// case it runs those whose number has an even count of bits (0, 3, 5, 6), of the others those
  /// with 2, 6, 10 bits (9, 10, 12, 17, ...), which no loop within a case follows;
  /// ATTNJIT_EVERY_PROBLEM, which a slow test sets, has all of them run.
  bool leaves_out() {
    const unsigned number = asked_++;
    const int bits = std::popcount(number);
    return std::getenv("ATTNJIT_EVERY_PROBLEM") == nullptr &&
           (number < 8 ? bits % 2 != 0 : bits % 4 != 2);
  }

  /// Runs a forward and judges it. Empty, or what is wrong: a violation or a verdict. `config_json`
  /// sets members of configuration 0; the path is mma unless they name another.
  std::string forward(const instance::ProblemSpec& spec, const codegen::Arch& arch,
                      const std::string& config_json = "{}") {
    instance::HostProblem host(spec, 1);
    const std::string report = run_forward(host, arch, config_json);
    return report.empty() ? check::judge_forward(host, reference::Rows::every(), 1).text : report;
  }

  /// Runs a forward on the memory of `host` as it is, and does not judge it.
  std::string run_forward(instance::HostProblem& host, const codegen::Arch& arch,
                          const std::string& config_json = "{}") {
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

  /// The same for a backward; `config_json` sets members of its tunables.
  std::string backward(const instance::ProblemSpec& spec, const codegen::Arch& arch,
                       const std::string& config_json = "{}") {
    instance::HostProblem host(spec, 1);
    const std::string report = run_backward(host, arch, config_json);
    return report.empty() ? check::judge_backward(host, reference::Planes::every(), 1).text
                          : report;
  }

  /// Runs a backward on the memory of `host` as it is, and does not judge it.
  std::string run_backward(instance::HostProblem& host, const codegen::Arch& arch,
                           const std::string& config_json = "{}") {
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

 private:
  static std::filesystem::path directory() { return ATTNJIT_TEST_KERNELS; }
  template <class Tunables>
  static Tunables patched(const Tunables& zero, const std::string& json) {
    return base::patched(zero, base::parse_patch<Tunables>(base::parse_json(json), "config"));
  }

  base::Log log_{base::LogLevel::kError, {}};
  codegen::TemplateSet templates_;
  executor::Executor executor_;
  unsigned asked_ = 0;
};

}  // namespace attnjit::executor_test
