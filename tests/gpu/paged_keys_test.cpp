// Paged keys on a GPU: pages of several sizes, shared ones, many pages, packed queries, and a
// captured graph that is replayed with another table and other lengths.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu.hpp"

namespace attnjit {
namespace {

using gpu_test::all_cores;
using gpu_test::expect_problem;
using instance::HostProblem;
using instance::ProblemSpec;

ProblemSpec paged(std::int64_t page_size, std::int64_t queries) {
  ProblemSpec spec{.batch = 5,
                   .heads_q = 8,
                   .heads_kv = 2,
                   .seqlen_q = queries,
                   .seqlen_kv = (1000 + page_size - 1) / page_size * page_size,
                   .head_dim = 128};
  spec.page_size = page_size;
  spec.use_seqlens_kv = true;
  return spec;
}

TEST_CASE("paged keys: pages of several sizes, one query and many") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t page_size : {1, 16, 32, 64, 100, 128, 192, 256}) {
    for (const std::int64_t queries : {1, 20, 300}) {
      ProblemSpec spec = paged(page_size, queries);
      expect_problem(gpu, spec);
      spec.causal = true;
      spec.diagonal = Diagonal::kBottomRight;
      spec.shared_pages = 1;
      spec.memory.layout = instance::Layout::kBshd;
      expect_problem(gpu, spec);
    }
  }
}

TEST_CASE("paged keys: masks and biases, for threads with four neighbouring keys and with eight") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t page_size : {16, 64}) {
    for (const std::int64_t queries : {20, 300}) {
      for (const int head_dim : {64, 128, 256}) {
        ProblemSpec spec = paged(page_size, queries);
        spec.head_dim = head_dim;
        spec.mask = "b1qk";
        spec.window = {700, 0};
        spec.diagonal = Diagonal::kBottomRight;
        expect_problem(gpu, spec);
        spec.bias = "1hqk";
        spec.mask = "b11k";
        spec.poison_dropped_keys = true;
        expect_problem(gpu, spec);
      }
    }
  }
}

TEST_CASE("tail mask: with pages and without") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t page_size : {16, 64}) {
    for (const std::int64_t queries : {8, 64, 200}) {
      for (const int head_dim : {64, 128, 256}) {
        ProblemSpec spec = paged(page_size, queries);
        spec.head_dim = head_dim;
        spec.tail_mask = "b";
        expect_problem(gpu, spec);
        spec.page_size = 0;
        spec.tail_mask = "1";
        expect_problem(gpu, spec);
      }
    }
  }
}

// A pool whose pages lie so far apart that offsets need more than 31 bits, by strides alone.
Tensor spread(gpu_test::Gpu& gpu, const Tensor& pool, std::int64_t stride,
              const cuda::DeviceBuffer& memory) {
  const auto page_bytes = static_cast<std::size_t>(pool.strides[0]) * 2;
  std::vector<std::byte> page(page_bytes);
  for (std::int64_t i = 0; i < pool.shape[0]; ++i) {
    const auto* const from = static_cast<const std::byte*>(pool.data) + i * pool.strides[0] * 2;
    cuda::copy_to_host(*gpu.driver, page.data(), from, page_bytes);
    auto* const to = static_cast<std::byte*>(memory.data()) + i * stride * 2;
    cuda::copy_to_device(*gpu.driver, to, page.data(), page_bytes);
  }
  Tensor result = pool;
  result.data = memory.data();
  result.strides[0] = stride;
  return result;
}

TEST_CASE("paged keys: pools of more than 2^31 elements") {
  ATTNJIT_NEED_GPU(gpu);
  constexpr std::int64_t kStride = std::int64_t{1} << 27;
  for (const std::int64_t page_size : {16, 64}) {
    for (const std::int64_t queries : {1, 200}) {
      ProblemSpec spec = paged(page_size, queries);
      spec.seqlen_kv = 5 * page_size;
      HostProblem problem(spec, all_cores());
      const std::size_t bytes = static_cast<std::size_t>(spec.num_pages() * kStride) * 2;
      const cuda::DeviceBuffer k(*gpu.driver, bytes), v(*gpu.driver, bytes);
      gpu_test::run_on_mirror(*gpu.driver, problem, [&](const auto& mirror, CUstream stream) {
        ForwardArgs args = mirror.args();
        args.k = spread(gpu, args.k, kStride, k);
        args.v = spread(gpu, args.v, kStride, v);
        gpu.context.forward(args, stream);
      });
      const auto verdict = check::judge_forward(problem, reference::Rows::every(), all_cores());
      INFO(verdict.text);
      CHECK(verdict.pass);
    }
  }
}

// Chunks of prompts, single queries, an empty sequence and rows of none.
ProblemSpec mixed(std::int64_t page_size) {
  ProblemSpec spec = paged(page_size, 900);
  spec.packed = true;
  spec.cu_seqlens_q = {0, 500, 501, 502, 502, 800, 801, 802, 890};
  spec.batch = 8;
  spec.seqlens_kv = {700, 1000, 1, 300, 298, 999, 0, 640};
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  return spec;
}

TEST_CASE("packed pages: chunks of prompts and single queries in one row") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t page_size : {1, 16, 32, 64, 100, 128, 192, 256}) {
    for (const int head_dim : {64, 128, 256}) {
      ProblemSpec spec = mixed(page_size);
      spec.head_dim = head_dim;
      expect_problem(gpu, spec);
      spec.seqlen_q = 40;  // pack_gqa
      spec.cu_seqlens_q = {0, 1, 2, 3, 3, 36, 37, 38, 39};
      spec.shared_pages = 1;
      spec.memory.layout = instance::Layout::kBshd;
      spec.use_sink = spec.want_max_logits = true;
      expect_problem(gpu, spec);
    }
  }
}

TEST_CASE("packed pages: masks and biases by sequence") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t page_size : {16, 64}) {
    ProblemSpec spec = mixed(page_size);
    spec.mask = "b1qk";
    spec.operand_queries = 512;
    spec.operand_keys = 960;
    spec.window = {700, 0};
    expect_problem(gpu, spec);
    spec.bias = "1hqk";
    spec.mask = "b11k";
    spec.use_seqlens_q = true;
    expect_problem(gpu, spec);
    spec.mask = "111k";
    spec.bias = "1h1k";
    spec.alibi = "bh";
    expect_problem(gpu, spec);
  }
}

// Replays what `first` captured with the numbers of `second`, which have the same sizes.
void expect_replay(gpu_test::Gpu& gpu, const ProblemSpec& first, const ProblemSpec& second) {
  HostProblem captured(first, all_cores()), replayed(second, all_cores());
  replayed.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, captured);
  const cuda::Stream stream(*gpu.driver);
  gpu.context.forward(mirror.args(), stream.get());
  stream.synchronize();
  cuda::Capture capture(*gpu.driver, stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  gpu.context.forward(mirror.args(), stream.get());
  const cuda::GraphExec graph(capture.end());
  mirror.replace(replayed);
  graph.launch(stream.get());
  stream.synchronize();
  mirror.download(replayed);
  const auto verdict = check::judge_forward(replayed, reference::Rows::every(), all_cores());
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("paged keys: a captured graph is replayed with another table and other lengths") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t queries : {1, 200}) {
    ProblemSpec first = paged(64, queries);
    first.seqlens_kv = {1000, 1, 500, 0, 64};
    first.tail_mask = "b";
    ProblemSpec second = first;
    second.seqlens_kv = {0, 1024, 65, 900, 300};
    second.shared_pages = 2;
    second.seed = 7;
    expect_replay(gpu, first, second);
  }
}

TEST_CASE("packed pages: a captured graph is replayed with another batch") {
  ATTNJIT_NEED_GPU(gpu);
  const ProblemSpec first = mixed(64);
  ProblemSpec second = first;
  second.cu_seqlens_q = {0, 1, 301, 301, 850, 851, 860, 899, 900};
  second.seqlens_kv = {1000, 301, 17, 900, 64, 0, 500, 1};
  second.seed = 7;
  expect_replay(gpu, first, second);
}

}  // namespace
}  // namespace attnjit
