// Calls around the kernels: graphs, streams, workspaces, repeated calls, bad addresses.
#include <cstring>

#include "gpu.hpp"

namespace attnjit::forward_runtime_test {
namespace {

using gpu_test::masked_problem;
using instance::HostProblem;
using instance::ProblemSpec;

void expect_right(HostProblem& problem, const check::DeviceMirror& mirror) {
  mirror.download(problem);
  const auto verdict = check::judge_forward(problem, reference::Rows::every(), 4);
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("graph: a prepared call is captured and replayed") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(masked_problem(), 4);
  problem.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, problem);
  const ForwardArgs args = mirror.args();
  gpu.context.prepare_forward(args);
  const cuda::DeviceBuffer workspace(*gpu.driver, gpu.context.forward_workspace_size(args));
  const cuda::Stream stream(*gpu.driver);
  for (const bool own_workspace : {false, true}) {
    cuda::Capture capture(*gpu.driver, stream.get());
    gpu.context.forward(
        args, stream.get(),
        own_workspace ? Workspace{workspace.data(), workspace.bytes()} : Workspace{});
    const cuda::Graph graph = capture.end();
    const cuda::GraphExec exec(graph);
    for (int replay = 0; replay < 3; ++replay) {
      problem.poison_outputs();
      mirror.upload_outputs();
      exec.launch(stream.get());
      stream.synchronize();
      expect_right(problem, mirror);
    }
  }
}

TEST_CASE("graph: a call that was never prepared may be captured as well") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(
      {.batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 90, .seqlen_kv = 90, .head_dim = 56},
      4);
  problem.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, problem);
  const cuda::Stream stream(*gpu.driver);
  cuda::Capture capture(*gpu.driver, stream.get());
  gpu.context.forward(mirror.args(), stream.get());
  const cuda::Graph graph = capture.end();
  const cuda::GraphExec exec(graph);
  exec.launch(stream.get());
  stream.synchronize();
  expect_right(problem, mirror);
}

TEST_CASE("streams: two streams run one plan at once") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec spec = masked_problem();
  spec.seqlen_q = 600;
  HostProblem first(spec, 4);
  spec.seed = 99;
  HostProblem second(spec, 4);
  first.poison_outputs();
  second.poison_outputs();
  check::DeviceMirror mirrors[] = {{*gpu.driver, first}, {*gpu.driver, second}};
  const cuda::Stream one(*gpu.driver), two(*gpu.driver);
  gpu.context.prepare_forward(mirrors[0].args());
  for (int i = 0; i < 20; ++i) {
    gpu.context.forward(mirrors[0].args(), one.get());
    gpu.context.forward(mirrors[1].args(), two.get());
  }
  one.synchronize();
  two.synchronize();
  expect_right(first, mirrors[0]);
  expect_right(second, mirrors[1]);
  CHECK(gpu.context.counters().plans == 1);
}

TEST_CASE("a thousand calls of many blocks of rows give the same bits") {
  ATTNJIT_NEED_GPU(gpu);
  instance::ProblemSpec spec = {
      .batch = 2, .heads_q = 40, .heads_kv = 10, .seqlen_q = 300, .seqlen_kv = 300, .head_dim = 64};
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  HostProblem problem(spec, 4);
  check::DeviceMirror mirror(*gpu.driver, problem);
  const cuda::Stream stream(*gpu.driver);
  const auto run = [&] {
    gpu.context.forward(mirror.args(), stream.get());
    stream.synchronize();
    mirror.download(problem);
    const auto bytes = problem.find(instance::BufferRole::kOut)->bytes();
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const std::vector<std::byte> first = run();
  int different = 0;
  for (int i = 1; i < 1000; ++i) different += run() != first;
  CHECK(different == 0);
}

TEST_CASE("repeated calls give the same bits") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(masked_problem(), 4);
  problem.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, problem);
  const cuda::Stream stream(*gpu.driver);
  std::vector<std::byte> before;
  for (int i = 0; i < 20; ++i) {
    mirror.upload_outputs();
    gpu.context.forward(mirror.args(), stream.get());
    stream.synchronize();
    mirror.download(problem);
    const auto bytes = problem.find(instance::BufferRole::kOut)->bytes();
    if (i > 0) CHECK(std::memcmp(before.data(), bytes.data(), bytes.size()) == 0);
    before.assign(bytes.begin(), bytes.end());
  }
}

TEST_CASE("new lengths, batches and strides compile nothing") {
  ATTNJIT_NEED_GPU(gpu);
  auto run = [&](const ProblemSpec& spec) {
    HostProblem problem(spec, 4);
    CHECK(gpu_test::run(gpu.context, *gpu.driver, problem).pass);
  };
  run({.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 200, .seqlen_kv = 200});
  const auto before = gpu.context.counters();
  run({.batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 253, .seqlen_kv = 131});
  run({.batch = 3,
       .heads_q = 6,
       .heads_kv = 3,
       .seqlen_q = 129,
       .seqlen_kv = 256,
       .memory = {.layout = instance::Layout::kBshd}});
  const auto after = gpu.context.counters();
  CHECK(after.compiles + after.disk_hits == before.compiles + before.disk_hits);
  CHECK(after.plans <= before.plans + 2);  // one for each class of batch times heads
}

std::string message_of(gpu_test::Gpu& gpu, const ForwardArgs& args, Workspace workspace = {}) {
  return gpu_test::refusal([&] { gpu.context.forward(args, nullptr, workspace); });
}

TEST_CASE("a host address is refused before anything runs") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(masked_problem(), 4);
  check::DeviceMirror mirror(*gpu.driver, problem);
  ForwardArgs args = mirror.args();
  args.v.data = problem.args().v.data;
  const std::string message = message_of(gpu, args);
  CHECK(message.find("v: ") == 0);
  CHECK(message.find("device memory") != std::string::npos);
}

TEST_CASE("a workspace that is too small or misaligned is refused") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(masked_problem(), 4);
  check::DeviceMirror mirror(*gpu.driver, problem);
  const std::size_t bytes = gpu.context.forward_workspace_size(mirror.args());
  REQUIRE(bytes > 0);
  const cuda::DeviceBuffer workspace(*gpu.driver, bytes + 1);
  auto* base = static_cast<std::byte*>(workspace.data());
  CHECK(message_of(gpu, mirror.args(), {base, bytes - 1}).find("workspace") == 0);
  CHECK(message_of(gpu, mirror.args(), {base + 1, bytes}).find("workspace") == 0);
  CHECK(message_of(gpu, mirror.args(), {base, bytes}).empty());
}

}  // namespace
}  // namespace attnjit::forward_runtime_test
