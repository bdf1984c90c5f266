// Prepared masks on a GPU: both passes, both paths, and a captured graph that sees a mask which is
// prepared anew.
#include <vector>

#include "gpu.hpp"

namespace attnjit {
namespace {

using gpu_test::all_cores;
using gpu_test::expect_problem;
using instance::HostProblem;
using instance::ProblemSpec;
using tensor::MaskKind;

ProblemSpec prepared(const char* mask, std::int64_t head_dim) {
  ProblemSpec spec{.batch = 2,
                   .heads_q = 8,
                   .heads_kv = 2,
                   .seqlen_q = 700,
                   .seqlen_kv = 1000,
                   .head_dim = head_dim,
                   .mask = mask,
                   .prepare_mask = true};
  spec.poison_dropped_keys = true;
  return spec;
}

TEST_CASE("prepared masks: patterns, widths and kinds, both passes") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t head_dim : {64, 100, 128, 256}) {
    for (const char* mask : {"bhqk", "1gqk", "b11k", "1h1k"}) {
      for (const MaskKind kind : {MaskKind::kRandom, MaskKind::kBlocks, MaskKind::kScattered}) {
        ProblemSpec spec = prepared(mask, head_dim);
        spec.mask_kind = kind;
        expect_problem(gpu, spec);
        spec.backward = true;
        expect_problem(gpu, spec);
      }
    }
  }
}

TEST_CASE("prepared masks: one serves calls of other head dims") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem first(prepared("1g1k", 64), all_cores()), second(prepared("1g1k", 128), all_cores());
  const cuda::Stream stream(*gpu.driver);
  check::DeviceMirror mirror(*gpu.driver, first), other(*gpu.driver, second);
  mirror.prepare_mask(gpu.context, stream.get());
  ForwardArgs args = other.args();
  args.prepared_mask = mirror.args().prepared_mask;
  args.mask.reset();
  second.poison_outputs();
  other.upload_outputs();
  gpu.context.forward(args, stream.get());
  stream.synchronize();
  other.download(second);
  // The masks of both problems are drawn alike.
  const check::Verdict verdict =
      check::judge_forward(second, reference::Rows::every(), all_cores());
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("prepared masks: a graph prepares, attends and is replayed with another mask") {
  ATTNJIT_NEED_GPU(gpu);
  const ProblemSpec first = prepared("b1qk", 128);
  ProblemSpec second = first;
  second.seed = 2;
  HostProblem captured(first, all_cores()), replayed(second, all_cores());
  replayed.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, captured);
  const cuda::Stream stream(*gpu.driver);
  mirror.prepare_mask(gpu.context, stream.get());
  const ForwardArgs args = mirror.args();
  gpu.context.forward(args, stream.get());
  stream.synchronize();
  cuda::Capture capture(*gpu.driver, stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  mirror.prepare_mask(gpu.context, stream.get());
  gpu.context.forward(args, stream.get());
  const cuda::GraphExec graph(capture.end());
  mirror.replace(replayed);
  graph.launch(stream.get());
  stream.synchronize();
  mirror.download(replayed);
  const check::Verdict verdict =
      check::judge_forward(replayed, reference::Rows::every(), all_cores());
  INFO(verdict.text);
  CHECK(verdict.pass);
}

}  // namespace
}  // namespace attnjit
