// Packed sequences on a GPU: many of them, numbers that the caller must not give, and a captured
// graph that is replayed with other lengths.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu.hpp"

namespace attnjit {
namespace {

using gpu_test::all_cores;
using gpu_test::expect_problem;
using instance::HostProblem;
using instance::ProblemSpec;
using Begins = std::vector<std::int32_t>;

ProblemSpec packed(const Begins& q, const Begins& kv, std::int64_t rows, std::int64_t keys) {
  ProblemSpec spec{.batch = static_cast<std::int64_t>(q.size()) - 1,
                   .heads_q = 4,
                   .heads_kv = 2,
                   .seqlen_q = rows,
                   .seqlen_kv = keys,
                   .head_dim = 128,
                   .packed = true};
  spec.cu_seqlens_q = q;
  spec.cu_seqlens_kv = kv;
  return spec;
}

ProblemSpec gradients(ProblemSpec spec, bool deterministic = false) {
  spec.backward = true;
  spec.want_dbias = !spec.bias.empty();
  spec.deterministic = deterministic;
  return spec;
}

TEST_CASE("packed sequences: short and empty ones among long ones, each way to a dbias") {
  ATTNJIT_NEED_GPU(gpu);
  const Begins q = {0, 700, 700, 701, 766, 1800}, kv = {0, 400, 900, 900, 1000, 1900};
  for (const char* bias : {"", "bhqk", "1gqk", "1h1t", "bh1k", "bhq1"}) {
    ProblemSpec spec = packed(q, kv, 1850, 2000);
    spec.bias = bias;
    spec.mask = bias[0] == 'b' ? "b1qk" : "";
    spec.causal = spec.use_sink = spec.poison_dropped_keys = true;
    spec.diagonal = Diagonal::kBottomRight;
    expect_problem(gpu, spec);
    for (const bool deterministic : {false, true})
      expect_problem(gpu, gradients(spec, deterministic));
  }
}

TEST_CASE("packed sequences: 70,000 of them") {
  ATTNJIT_NEED_GPU(gpu);
  Begins begins = {0};
  for (int b = 0; b < 70'000; ++b) begins.push_back(begins.back() + (b % 7 == 0 ? 5 : b % 2));
  const ProblemSpec spec = packed(begins, begins, begins.back() + 10, begins.back() + 10);
  expect_problem(gpu, spec);
  expect_problem(gpu, gradients(spec));
}

// More blocks of rows than thread blocks, so that these take several, of costs that differ much:
// sequences of 2000 rows to none, in sections of 1024, at any row of a four, with two rows past it.
TEST_CASE("packed sequences: thread blocks with several blocks of rows") {
  ATTNJIT_NEED_GPU(gpu);
  for (const int count : {60, 1500}) {
    Begins begins = {0};
    for (int b = 0; b < count; ++b)
      begins.push_back(begins.back() + 120'000 / count / (b % 37 + 1));
    const std::int64_t rows = (begins.back() + 4) / 4 * 4 + 2;
    ProblemSpec spec = packed(begins, begins, rows, rows);
    spec.poison_dropped_keys = true;
    expect_problem(gpu, spec);
    spec.causal = true;
    spec.diagonal = Diagonal::kBottomRight;
    expect_problem(gpu, spec);
    spec.causal = false;
    spec.window = {200, 10};
    expect_problem(gpu, spec);
  }
}

// Outputs may hold anything then; the bytes around them stay as they are.
TEST_CASE("packed sequences: numbers that fall or leave the tensor") {
  ATTNJIT_NEED_GPU(gpu);
  for (const Begins& begins : {Begins{0, 600, 200, 900}, Begins{-5, 400, 1 << 30, 900},
                               Begins{300, -(1 << 30), 500, 700}}) {
    HostProblem forward(packed(begins, begins, 900, 900), all_cores());
    gpu_test::run_on_mirror(*gpu.driver, forward, [&](const auto& mirror, CUstream stream) {
      gpu.context.forward(mirror.args(), stream);
    });
    CHECK(forward.check_guards() == "");
    HostProblem backward(gradients(packed(begins, begins, 900, 900)), all_cores());
    gpu_test::run_on_mirror(*gpu.driver, backward, [&](const auto& mirror, CUstream stream) {
      gpu.context.backward(mirror.backward_args(), stream);
    });
    CHECK(backward.check_guards() == "");
  }
}

// A graph of `first`, replayed with all that `second` has where the first one's memory is.
template <class Call>
void replay(gpu_test::Gpu& gpu, const ProblemSpec& first, const ProblemSpec& second, Call call) {
  HostProblem captured(first, all_cores()), replayed(second, all_cores());
  replayed.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, captured);
  const cuda::Stream stream(*gpu.driver);
  call(mirror, stream.get());
  stream.synchronize();
  cuda::Capture capture(*gpu.driver, stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  call(mirror, stream.get());
  const cuda::GraphExec graph(capture.end());
  mirror.replace(replayed);
  graph.launch(stream.get());
  stream.synchronize();
  mirror.download(replayed);
  const auto expect = [](const auto& verdict) {
    INFO(verdict.text);
    CHECK(verdict.pass);
  };
  if (second.backward) {
    expect(check::judge_backward(replayed, reference::Planes::every(), all_cores()));
  } else {
    expect(check::judge_forward(replayed, reference::Rows::every(), all_cores()));
  }
}

TEST_CASE("packed sequences: a captured graph is replayed with other lengths") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec first = packed({0, 100, 600, 1000}, {0, 300, 500, 1000}, 1000, 1000);
  first.bias = "1hqk";
  first.operand_queries = first.operand_keys = 512;
  ProblemSpec second = first;
  second.cu_seqlens_q = {0, 1, 1, 900};
  second.cu_seqlens_kv = {0, 64, 800, 800};
  replay(gpu, first, second, [&](const check::DeviceMirror& mirror, CUstream stream) {
    gpu.context.forward(mirror.args(), stream);
  });
  replay(gpu, gradients(first), gradients(second),
         [&](const check::DeviceMirror& mirror, CUstream stream) {
           gpu.context.backward(mirror.backward_args(), stream);
         });
}

}  // namespace
}  // namespace attnjit
