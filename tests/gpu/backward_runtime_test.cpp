// Backwards around the kernels: graphs, streams, repeated calls.
#include <cstring>

#include "backward_problems.hpp"

namespace attnjit {
namespace {

using gpu_test::expect_right;
using gpu_test::full_problems;
using gpu_test::full_problems_both_ways;
using instance::BufferRole;
using instance::HostProblem;
using instance::ProblemSpec;

TEST_CASE("backward graph: a prepared call is captured and replayed") {
  ATTNJIT_NEED_GPU(gpu);
  for (const ProblemSpec& spec : full_problems_both_ways()) {
    CAPTURE(instance::describe(spec));
    HostProblem problem(spec, 4);
    check::DeviceMirror mirror(*gpu.driver, problem);
    const BackwardArgs args = mirror.backward_args();
    gpu.context.prepare_backward(args);
    const cuda::DeviceBuffer workspace(*gpu.driver, gpu.context.backward_workspace_size(args));
    const cuda::Stream stream(*gpu.driver);
    for (const bool own_workspace : {false, true}) {
      cuda::Capture capture(*gpu.driver, stream.get());
      gpu.context.backward(
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
}

TEST_CASE("backward streams: two streams run one plan at once") {
  ATTNJIT_NEED_GPU(gpu);
  std::uint64_t plans = 0;
  for (ProblemSpec spec : full_problems_both_ways()) {
    CAPTURE(instance::describe(spec));
    HostProblem first(spec, 4);
    spec.seed = 99;
    HostProblem second(spec, 4);
    first.poison_outputs();
    second.poison_outputs();
    check::DeviceMirror mirrors[] = {{*gpu.driver, first}, {*gpu.driver, second}};
    const cuda::Stream one(*gpu.driver), two(*gpu.driver);
    gpu.context.prepare_backward(mirrors[0].backward_args());
    for (int i = 0; i < 20; ++i) {
      gpu.context.backward(mirrors[0].backward_args(), one.get());
      gpu.context.backward(mirrors[1].backward_args(), two.get());
    }
    one.synchronize();
    two.synchronize();
    expect_right(first, mirrors[0]);
    expect_right(second, mirrors[1]);
    CHECK(gpu.context.counters().plans == ++plans);
  }
}

TEST_CASE("backward: the forward's own out and lse, on one stream") {
  ATTNJIT_NEED_GPU(gpu);
  for (const ProblemSpec& spec : full_problems()) {
    CAPTURE(instance::describe(spec));
    HostProblem problem(spec, 4);
    problem.poison_outputs();
    check::DeviceMirror mirror(*gpu.driver, problem);
    const BackwardArgs args = mirror.backward_args();
    const cuda::Stream stream(*gpu.driver);
    gpu.context.forward(args.forward, stream.get());
    gpu.context.backward(args, stream.get());
    stream.synchronize();
    // The judge expects the reference's out and lse among the inputs.
    HostProblem judged(spec, 4);
    mirror.download(problem);
    for (const BufferRole role :
         {BufferRole::kDq, BufferRole::kDk, BufferRole::kDv, BufferRole::kDbias}) {
      const auto from = problem.find(role)->bytes();
      std::memcpy(judged.find(role)->bytes().data(), from.data(), from.size());
    }
    const auto verdict = check::judge_backward(judged, reference::Planes::every(), 4);
    INFO(verdict.text);
    CHECK(verdict.pass);
  }
}

// One problem for each way in which a gradient may be computed.
std::vector<ProblemSpec> problem_classes() {
  ProblemSpec plain{.batch = 2,
                    .heads_q = 4,
                    .heads_kv = 2,
                    .seqlen_q = 300,
                    .seqlen_kv = 400,
                    .head_dim = 64,
                    .backward = true,
                    .deterministic = true};
  std::vector<ProblemSpec> list = {plain};
  const auto add = [&](auto change) { change(list.emplace_back(plain)); };
  add([](ProblemSpec& s) {
    s.causal = true;
    s.diagonal = Diagonal::kBottomRight;
  });
  add([](ProblemSpec& s) { s.mask = "b1qk"; });
  add([](ProblemSpec& s) { s.head_dim = 40, s.head_dim_v = 72, s.memory.base_offset = 1; });
  add([](ProblemSpec& s) { s.head_dim = 256; });
  add([](ProblemSpec& s) { s.use_seqlens_q = s.use_seqlens_kv = true; });
  add([](ProblemSpec& s) { s.seqlen_q = 5, s.seqlen_kv = 3000; });  // few key tiles, or many
  add([](ProblemSpec& s) { s.seqlen_q = 3000, s.seqlen_kv = 5; });
  for (const char* bias : {"bhqk", "1hqk", "b1qk", "11qk", "1g1k", "111k", "bhq1", "1111"}) {
    add([&](ProblemSpec& s) { s.bias = bias, s.want_dbias = s.want_dlse = true; });
  }
  return list;
}

// The bytes of all outputs.
std::vector<std::byte> outputs(const HostProblem& problem) {
  std::vector<std::byte> all;
  for (const instance::HostBuffer& buffer : problem.buffers()) {
    if (!buffer.is_output()) continue;
    all.insert(all.end(), buffer.bytes().begin(), buffer.bytes().end());
  }
  return all;
}

TEST_CASE("backward: deterministic calls give the same bits 100 times") {
  ATTNJIT_NEED_GPU(gpu);
  for (const ProblemSpec& spec : problem_classes()) {
    CAPTURE(instance::describe(spec));
    HostProblem problem(spec, 4);
    problem.poison_outputs();
    check::DeviceMirror mirror(*gpu.driver, problem);
    const cuda::Stream stream(*gpu.driver);
    std::vector<std::byte> first;
    int different = 0;
    for (int i = 0; i < 100; ++i) {
      mirror.upload_outputs();
      gpu.context.backward(mirror.backward_args(), stream.get());
      stream.synchronize();
      // The host's outputs are poison again for the next upload.
      mirror.download(problem);
      const std::vector<std::byte> now = outputs(problem);
      if (i == 0) first = now;
      different += now != first;
      problem.poison_outputs();
    }
    CHECK(different == 0);
    gpu.context.backward(mirror.backward_args(), stream.get());
    stream.synchronize();
    expect_right(problem, mirror);
  }
}

TEST_CASE("backward: new lengths, batches and strides compile nothing") {
  ATTNJIT_NEED_GPU(gpu);
  const auto run = [&](const ProblemSpec& spec) {
    HostProblem problem(spec, 4);
    CHECK(gpu_test::run_backward(gpu.context, *gpu.driver, problem).pass);
  };
  ProblemSpec spec{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 200, .seqlen_kv = 200, .backward = true};
  run(spec);
  const auto before = gpu.context.counters();
  spec.batch = 1, spec.seqlen_q = 253, spec.seqlen_kv = 131;
  run(spec);
  spec.batch = 3, spec.seqlen_q = 129, spec.seqlen_kv = 256;
  spec.memory.layout = instance::Layout::kBshd;
  run(spec);
  const auto after = gpu.context.counters();
  CHECK(after.compiles + after.disk_hits == before.compiles + before.disk_hits);
  CHECK(after.plans <= before.plans + 2);  // one for each class of batch times heads
}

}  // namespace
}  // namespace attnjit
