// Tuning on a real device. The environments are each test's own: DISABLE_AUTOTUNE holds elsewhere.
#include <string>
#include <vector>

#include "gpu.hpp"
#include "runtime/call/dispatcher.hpp"
#include "runtime/load/plan_loader.hpp"
#include "runtime/tune/problem_tuner.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit::tuning_test {
namespace {

using gpu_test::tuning_environment;
using instance::HostProblem;
using instance::ProblemSpec;
using runtime::Dispatcher;
using test::TempDirectory;

ProblemSpec plain_problem() {
  return {
      .batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 500, .seqlen_kv = 500, .head_dim = 64};
}

// Two steps, a workspace, and every kind of operand.
ProblemSpec full_problem() {
  ProblemSpec spec = plain_problem();
  spec.mask = "b1qk";
  spec.bias = "1hqk";
  spec.bias_dtype = DType::kFloat32;
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  return spec;
}

// A gradient of every input, and a bias that the batch shares.
ProblemSpec backward_problem() {
  ProblemSpec spec = plain_problem();
  spec.bias = "1hqk";
  spec.backward = spec.want_dbias = true;
  return spec;
}

// Two more kernels of their own.
ProblemSpec deterministic_problem() {
  ProblemSpec spec = backward_problem();
  spec.mask = "b11k";
  spec.deterministic = true;
  return spec;
}

void expect_right(Dispatcher& dispatcher, const cuda::Driver& driver, const ProblemSpec& spec) {
  HostProblem problem(spec, 4);
  problem.poison_outputs();
  check::DeviceMirror mirror(driver, problem);
  const cuda::Stream stream(driver);
  if (spec.backward) {
    dispatcher.backward(mirror.backward_args(), stream.get(), {});
  } else {
    dispatcher.forward(mirror.args(), stream.get(), {});
  }
  stream.synchronize();
  mirror.download(problem);
  const auto expect = [](const auto& verdict) {
    INFO(verdict.text);
    CHECK(verdict.pass);
  };
  if (spec.backward) {
    expect(check::judge_backward(problem, reference::Planes::every(), 4));
  } else {
    expect(check::judge_forward(problem, reference::Rows::every(), 4));
  }
}

problem::Problem problem_of(const check::DeviceMirror& mirror, launch::ForwardPass) {
  return problem::make_problem(mirror.args());
}
problem::BackwardProblem problem_of(const check::DeviceMirror& mirror, launch::BackwardPass) {
  return problem::make_problem(mirror.backward_args());
}

// Tunes `spec`, and runs it in another context under the record.
template <class Pass>
void tune_then_run(const std::shared_ptr<const cuda::Driver>& driver, const ProblemSpec& spec) {
  const TempDirectory directory;
  std::vector<std::string> warnings;
  const auto keep = [&](base::LogLevel level, std::string_view text) {
    const bool wrong = text.find("computes something else") != std::string_view::npos;
    if (level == base::LogLevel::kWarning && wrong) warnings.emplace_back(text);
  };
  runtime::Engine engine(tuning_environment(directory.path()), keep);
  runtime::ProblemTuner<Pass> tuner(engine);
  const HostProblem shape(spec, 4);
  const check::DeviceMirror mirror(*driver, shape);
  const auto report = tuner.tune(*driver, problem_of(mirror, Pass{}));
  MESSAGE(report.candidates, " candidates, ", report.rejected, " rejected, ", report.seconds,
          " s: ", codegen::describe_tile(report.record.config), " ", report.record.us,
          " us, configuration 0 ", report.record.default_us, " us, ", report.record.verdict);
  CHECK(report.skipped == 0);
  CHECK(report.result.conclusive());
  CHECK(report.result.default_us > 0);
  CHECK(report.result.us <= report.result.default_us);
  CHECK(tuner.timing_launches() > 0);
  for (const std::string& warning : warnings) FAIL_CHECK(warning);  // a candidate is wrong

  Dispatcher next(tuning_environment(directory.path()), {}, driver);
  expect_right(next, *driver, spec);
  const Counters counters = next.counters();
  CHECK(counters.record_hits == 1);
  CHECK(counters.tunes == 0);
  CHECK(counters.timing_launches == 0);
  CHECK(counters.compiles == 0);
}

TEST_CASE("tuning: the next context uses the record, and its result is right") {
  ATTNJIT_NEED_GPU(gpu);
  for (const ProblemSpec& spec : {plain_problem(), full_problem()}) {
    tune_then_run<launch::ForwardPass>(gpu.driver, spec);
  }
}

TEST_CASE("tuning: the candidates of a backward agree, and the record's result is right") {
  ATTNJIT_NEED_GPU(gpu);
  for (const ProblemSpec& spec : {backward_problem(), deterministic_problem()}) {
    tune_then_run<launch::BackwardPass>(gpu.driver, spec);
  }
}

TEST_CASE("tuning: a call that meets a problem first tunes it once, and is right") {
  ATTNJIT_NEED_GPU(gpu);
  const TempDirectory directory;
  Dispatcher dispatcher(tuning_environment(directory.path()), {}, gpu.driver);
  expect_right(dispatcher, *gpu.driver, plain_problem());
  expect_right(dispatcher, *gpu.driver, plain_problem());
  CHECK(dispatcher.counters().tunes == 1);
  CHECK(dispatcher.counters().plans == 1);
  expect_right(dispatcher, *gpu.driver, backward_problem());
  CHECK(dispatcher.counters().tunes == 2);
  CHECK(dispatcher.counters().plans == 2);
}

TEST_CASE("tuning: a captured call is not timed") {
  ATTNJIT_NEED_GPU(gpu);
  const TempDirectory directory;
  Dispatcher dispatcher(tuning_environment(directory.path()), {}, gpu.driver);
  HostProblem problem(plain_problem(), 4);
  check::DeviceMirror mirror(*gpu.driver, problem);
  const cuda::Stream stream(*gpu.driver);
  cuda::Capture capture(*gpu.driver, stream.get());
  dispatcher.forward(mirror.args(), stream.get(), {});
  const cuda::Graph graph = capture.end();
  CHECK(dispatcher.counters().tunes == 0);
  CHECK(dispatcher.counters().timing_launches == 0);
  CHECK(dispatcher.counters().plans == 1);
}

TEST_CASE("tuning: while another stream is captured, a prepared call may be timed") {
  ATTNJIT_NEED_GPU(gpu);
  const TempDirectory directory;
  Dispatcher dispatcher(tuning_environment(directory.path()), {}, gpu.driver);
  HostProblem problem(plain_problem(), 4);
  check::DeviceMirror mirror(*gpu.driver, problem);
  const cuda::Stream stream(*gpu.driver);
  cuda::Capture capture(*gpu.driver, stream.get());
  dispatcher.prepare_forward(mirror.args());
  CHECK(dispatcher.counters().tunes == 1);
  CHECK_NOTHROW(capture.end());  // the capture is still good
}

}  // namespace
}  // namespace attnjit::tuning_test
