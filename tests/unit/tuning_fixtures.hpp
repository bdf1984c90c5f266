#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "cache/layout.hpp"
#include "runtime/call/dispatcher.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/fake_device.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit::test {

/// Rows of 12 elements are not aligned, so that the forward's configuration 0 is on path mma.
inline ForwardArgs small_args(std::int64_t head_dim = 12) {
  return forward_args({.batch = 1, .seqlen_q = 60, .head_dim = head_dim, .head_dim_v = head_dim});
}
inline problem::Problem small_problem() { return problem::make_problem(small_args()); }

/// A problem with three kernels, of which that of dq comes last. It is on path mma as well.
inline BackwardArgs small_backward_args() {
  BackwardArgs args = backward_args(small_args(20));
  args.deterministic = true;
  return args;
}
inline problem::BackwardProblem small_backward() {
  return problem::make_problem(small_backward_args());
}

/// A space of two candidates beside configuration 0.
inline tuner::SearchSpace small_space() {
  return tuner::SearchSpace(R"({"schema": 3, "space": "test", "groups": [
      {"head_dim": [1, 64], "candidates": [
          {"block_q": 32, "block_kv": 64, "num_stages": 2, "num_warps": [2, 1], "min_blocks": 2}]}]})");
}

inline tuner::BackwardSearchSpace small_backward_space() {
  return tuner::BackwardSearchSpace(R"({"schema": 3, "space": "test", "groups": [
      {"head_dim": [1, 64], "candidates": [
          {"dq": {"block_q": 128, "block_kv": 32, "num_warps": 4, "query_warps": 4}}]}]})");
}

/// A cache directory, and engines and dispatchers that use it.
class Machine {
 public:
  runtime::Engine start(Variables variables = {}, std::string_view shipped = {}) const {
    return runtime::Engine(environment_with(std::move(variables)), {},
                           {small_space(), small_backward_space()}, {}, shipped);
  }
  std::unique_ptr<runtime::Dispatcher> dispatch(const FakeDevice& device,
                                                Variables variables = {}) const {
    return std::make_unique<runtime::Dispatcher>(
        environment_with(std::move(variables)), base::Log::Sink(), device.driver(),
        runtime::Engine::Spaces(small_space(), small_backward_space()));
  }

  /// Leaves the kernels, so that the budget of a call is not spent on compiling them again.
  void forget_records() const {
    std::filesystem::remove_all(cache::version_directory(temp_ / "cache") / "t");
  }

 private:
  base::Environment environment_with(Variables variables) const {
    variables.emplace("ATTNJIT_CACHE_DIR", (temp_ / "cache").string());
    variables.emplace("XDG_RUNTIME_DIR", temp_.path().string());
    return environment(variables);
  }

  TempDirectory temp_;
};

/// Leaves the kernels of every candidate on disk, so that no budget is spent on compiling them.
template <class Problem, class Tuner>
void compile_candidates(const Machine& machine, const FakeDevice& device, const Problem& problem) {
  runtime::Engine engine = machine.start();
  Tuner(engine).tune(*device, problem);
  machine.forget_records();
}

}  // namespace attnjit::test
