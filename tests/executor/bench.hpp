#pragma once
#include <filesystem>
#include <string>

#include "check/verdict.hpp"
#include "codegen/templates.hpp"
#include "executor/prepared_call.hpp"
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
  explicit Bench(codegen::TemplateSet templates = {}, unsigned jobs = 1, std::string compiler = {});

  executor::Executor& executor() { return executor_; }
  const codegen::TemplateSet& templates() const { return templates_; }

  /// Whether CI leaves out the problem, or the mutation, that comes next: it runs the first of a
  /// case and about an eighth of the others. With ATTNJIT_EVERY_PROBLEM, which a slow test sets,
  /// all of them run.
  bool leaves_out();

  /// Runs a forward and judges it. Empty, or what is wrong: a violation or a verdict. `config_json`
  /// sets members of configuration 0; the path is mma unless they name another.
  std::string forward(const instance::ProblemSpec& spec, const codegen::Arch& arch,
                      const std::string& config_json = "{}");
  /// Runs a forward on the memory of `host` as it is, and does not judge it.
  std::string run_forward(instance::HostProblem& host, const codegen::Arch& arch,
                          const std::string& config_json = "{}");

  /// The same for a backward; `config_json` sets members of its tunables.
  std::string backward(const instance::ProblemSpec& spec, const codegen::Arch& arch,
                       const std::string& config_json = "{}");
  /// Runs a backward on the memory of `host` as it is, and does not judge it.
  std::string run_backward(instance::HostProblem& host, const codegen::Arch& arch,
                           const std::string& config_json = "{}");

 private:
  base::Log log_{base::LogLevel::kError, {}};
  codegen::TemplateSet templates_;
  executor::Executor executor_;
  unsigned asked_ = 0;
};

}  // namespace attnjit::executor_test
