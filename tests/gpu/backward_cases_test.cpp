// Cases that other implementations got wrong in their backward, by the numbers of
// docs/reference/semantics.md.
#include <vector>

#include "gpu.hpp"

namespace attnjit {
namespace {

using gpu_test::all_cores;
using gpu_test::causal;
using instance::HostProblem;
using instance::ProblemSpec;
using reference::Planes;
using tensor::BiasKind;
using tensor::MaskKind;

// Runs the gradients of `spec`, by kernels that may use atomics and by those that may not.
void expect_right(gpu_test::Gpu& gpu, ProblemSpec spec, const Planes& planes = Planes::every()) {
  spec.backward = true;
  for (const bool deterministic : {false, true}) {
    spec.deterministic = deterministic;
    HostProblem problem(spec, all_cores());
    const check::BackwardVerdict verdict =
        gpu_test::run_backward(gpu.context, *gpu.driver, problem, planes, all_cores());
    INFO(instance::describe(spec));
    INFO(verdict.text);
    CHECK(verdict.pass);
  }
}

ProblemSpec with_bias(ProblemSpec spec, const char* pattern,
                      std::optional<DType> dbias_dtype = {}) {
  spec.backward = spec.want_dbias = true;
  spec.bias = pattern;
  spec.dbias_dtype = dbias_dtype;
  return spec;
}

TEST_CASE("backward case 1: seqlen_not_multiple_of_64") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t length : {64, 120, 127, 128, 129, 255}) {
    for (const std::int64_t heads_kv : {8, 4}) {
      for (const std::int64_t head_dim : {64, 128}) {
        const ProblemSpec spec{.batch = 2,
                               .heads_q = 8,
                               .heads_kv = heads_kv,
                               .seqlen_q = length,
                               .seqlen_kv = length,
                               .head_dim = head_dim};
        expect_right(gpu, spec);
        expect_right(gpu, causal(spec, Diagonal::kTopLeft));
      }
    }
  }
}

// The tensors hold NaN before the call, dbias too.
TEST_CASE("backward case 2: whole mask tiles off in the middle, then on again") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* mask : {"b1qk", "bhqk", "b11k"}) {
    for (const char* bias : {"bhqk", "1hqk", "b11k"}) {
      ProblemSpec spec = with_bias({.batch = 2,
                                    .heads_q = 4,
                                    .heads_kv = 2,
                                    .seqlen_q = 500,
                                    .seqlen_kv = 700,
                                    .head_dim = 64,
                                    .mask = mask,
                                    .mask_kind = MaskKind::kBlocks},
                                   bias);
      expect_right(gpu, spec);
      spec.poison_dropped_keys = true;
      expect_right(gpu, causal(spec, Diagonal::kBottomRight));
    }
  }
}

TEST_CASE("backward case 3: dead rows, heads, batches and leading rows") {
  ATTNJIT_NEED_GPU(gpu);
  for (const MaskKind kind :
       {MaskKind::kDeadRows, MaskKind::kDeadHead, MaskKind::kDeadBatch, MaskKind::kAllFalse}) {
    for (const char* pattern : {"bhqk", "bhq1", "bh1k", "bh11"}) {
      ProblemSpec spec = with_bias({.batch = 2,
                                    .heads_q = 4,
                                    .heads_kv = 2,
                                    .seqlen_q = 150,
                                    .seqlen_kv = 200,
                                    .head_dim = 64,
                                    .mask = pattern,
                                    .mask_kind = kind},
                                   "1hqk");
      spec.want_dlse = true;
      expect_right(gpu, spec);
      spec.poison_dropped_keys = true;  // and NaN in dout and dlse of dead rows
      expect_right(gpu, spec);
    }
  }
  const ProblemSpec tall{
      .batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 300, .seqlen_kv = 100, .head_dim = 64};
  expect_right(gpu, causal(tall, Diagonal::kBottomRight));
  expect_right(gpu, causal(with_bias(tall, "1hqk"), Diagonal::kBottomRight));
}

TEST_CASE("backward case 4: extreme scores") {
  ATTNJIT_NEED_GPU(gpu);
  for (const DType bias_dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const BiasKind kind : {BiasKind::kVeryNegative, BiasKind::kGraded, BiasKind::kHugeLogit,
                                BiasKind::kMinusInfinity, BiasKind::kLowest}) {
      for (const char* pattern : {"bhqk", "1h1k", "bhq1", "b111"}) {
        ProblemSpec spec{.batch = 2,
                         .heads_q = 2,
                         .heads_kv = 1,
                         .seqlen_q = 130,
                         .seqlen_kv = 190,
                         .head_dim = 64,
                         .bias_kind = kind,
                         .bias_dtype = bias_dtype};
        expect_right(gpu, with_bias(spec, pattern));
      }
    }
  }
  for (const float scale : {0.0f, -1.0f, -0.1f}) {
    ProblemSpec spec{
        .batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 100, .seqlen_kv = 100, .head_dim = 64};
    spec.scale = scale;
    expect_right(gpu, spec);
    expect_right(gpu, causal(spec, Diagonal::kTopLeft));
    expect_right(gpu, with_bias(spec, "1hqk"));
  }
}

TEST_CASE("backward case 5: single query, single key, long decode") {
  ATTNJIT_NEED_GPU(gpu);
  const ProblemSpec one_key{
      .batch = 3, .heads_q = 4, .heads_kv = 2, .seqlen_q = 77, .seqlen_kv = 1, .head_dim = 64};
  expect_right(gpu, one_key);
  for (const char* bias : {"bhqk", "11qk", "1h11"}) expect_right(gpu, with_bias(one_key, bias));
  ProblemSpec one_pair{.batch = 3,
                       .heads_q = 4,
                       .heads_kv = 2,
                       .seqlen_q = 1,
                       .seqlen_kv = 1,
                       .head_dim = 64,
                       .mask = "bhqk"};
  expect_right(gpu, with_bias(one_pair, "bhqk"));
  const ProblemSpec decode{
      .batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 1, .seqlen_kv = 524288, .head_dim = 64};
  expect_right(gpu, decode);
  expect_right(gpu, causal(with_bias(decode, "111k"), Diagonal::kBottomRight));
}

TEST_CASE("backward case 6: NaN and Inf in K and V where nobody looks") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec spec{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 100, .seqlen_kv = 300, .head_dim = 64};
  spec.poison_dropped_keys = true;
  spec.use_seqlens_kv = true;
  expect_right(gpu, spec);
  spec.mask = "b11k";
  spec.mask_kind = MaskKind::kScattered;
  expect_right(gpu, spec);
  spec.window = {50, 20};
  spec.diagonal = Diagonal::kTopLeft;
  expect_right(gpu, spec);
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(gpu, with_bias(spec, "b1qk"));
}

// Narrow and many heads: the last plane, which lies beyond 2^31 elements, is cheap to judge.
ProblemSpec huge_problem(std::int64_t length) {
  return {.batch = 1,
          .heads_q = 33,
          .heads_kv = 33,
          .seqlen_q = length,
          .seqlen_kv = length,
          .head_dim = 8};
}
// Rows of operands that are not aligned, for path mma, and some that are, for path wgmma.
constexpr std::int64_t kHugeLengths[] = {8100, 8112};
Planes ends_of_huge_problem() { return Planes::only({{0, 0}, {0, 32}}); }

TEST_CASE("backward case 7: more than 2^31 mask elements") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t length : kHugeLengths) {
    ProblemSpec spec = huge_problem(length);
    spec.mask = "1hqk";
    expect_right(gpu, spec, ends_of_huge_problem());
  }
}

TEST_CASE("backward case 7: more than 2^31 bias and dbias elements") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t length : kHugeLengths) {
    expect_right(gpu, with_bias(huge_problem(length), "1hqk"), ends_of_huge_problem());
  }
}

TEST_CASE("backward case 7: strides that pass 2^31 elements, of an input and of an output") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem({.batch = 1,
                       .heads_q = 2,
                       .heads_kv = 2,
                       .seqlen_q = 70,
                       .seqlen_kv = 300,
                       .head_dim = 64,
                       .backward = true},
                      1);
  problem.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, problem);
  BackwardArgs args = mirror.backward_args();
  // K and dk again, their rows 2^23 elements apart: row 299 lies beyond 2^31 elements.
  const std::int64_t stride = std::int64_t{1} << 23;
  const auto bytes = static_cast<std::size_t>(stride) * 300 * 2;
  const cuda::DeviceBuffer wide_k(*gpu.driver, bytes), wide_dk(*gpu.driver, bytes);
  const auto for_each_row = [&](const Tensor& dense, const cuda::DeviceBuffer& wide, auto copy) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t row = 0; row < 300; ++row) {
        copy(static_cast<std::uint16_t*>(dense.data) + head * dense.strides[1] +
                 row * dense.strides[2],
             static_cast<std::uint16_t*>(wide.data()) + row * stride + head * 64);
      }
    }
  };
  for_each_row(problem.args().k, wide_k, [&](std::uint16_t* dense, std::uint16_t* wide) {
    cuda::copy_to_device(*gpu.driver, wide, dense, 64 * 2);
  });
  args.forward.k.data = wide_k.data();
  args.dk.data = wide_dk.data();
  args.forward.k.strides = args.dk.strides = {stride * 300, 64, stride, 1};
  const cuda::Stream stream(*gpu.driver);
  gpu.context.backward(args, stream.get());
  stream.synchronize();
  mirror.download(problem);
  for_each_row(problem.backward_args().dk, wide_dk, [&](std::uint16_t* dense, std::uint16_t* wide) {
    cuda::copy_to_host(*gpu.driver, dense, wide, 64 * 2);
  });
  const auto verdict = check::judge_backward(problem, Planes::every(), all_cores());
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("backward case 7: dout as a stride-0 expand") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec spec{.batch = 2,
                   .heads_q = 4,
                   .heads_kv = 2,
                   .seqlen_q = 150,
                   .seqlen_kv = 170,
                   .head_dim = 64,
                   .backward = true};
  spec.memory.expand_dout = true;
  expect_right(gpu, spec);
  spec.head_dim = 33;
  expect_right(gpu, with_bias(spec, "1hqk"));
}

TEST_CASE("backward case 7: 70,000 planes") {
  ATTNJIT_NEED_GPU(gpu);
  const ProblemSpec heads{
      .batch = 700, .heads_q = 100, .heads_kv = 100, .seqlen_q = 3, .seqlen_kv = 5, .head_dim = 8};
  expect_right(gpu, heads);
  expect_right(gpu, with_bias(heads, "bhqk"));
  expect_right(gpu, {.batch = 70000,
                     .heads_q = 1,
                     .heads_kv = 1,
                     .seqlen_q = 3,
                     .seqlen_kv = 5,
                     .head_dim = 8,
                     .mask = "b11k"});
}

TEST_CASE("backward case 8: bias rows of odd length, odd bases, fp32 bias under bf16") {
  ATTNJIT_NEED_GPU(gpu);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const std::int64_t length : {127, 129, 200, 201}) {
      for (const char* pattern : {"bhqk", "1hqk"}) {
        ProblemSpec spec = with_bias({.batch = 2,
                                      .heads_q = 2,
                                      .heads_kv = 2,
                                      .seqlen_q = 90,
                                      .seqlen_kv = length,
                                      .head_dim = 64,
                                      .bias_dtype = dtype},
                                     pattern);
        expect_right(gpu, spec);
        spec.dbias_dtype = DType::kFloat32;
        spec.memory.base_offset = 1;
        expect_right(gpu, spec);
        spec.memory = {.row_padding = 3};
        expect_right(gpu, spec);
      }
    }
  }
}

TEST_CASE("backward case 9: k and v with different strides, BSHD memory") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec spec{
      .batch = 2, .heads_q = 6, .heads_kv = 3, .seqlen_q = 130, .seqlen_kv = 170, .head_dim = 64};
  spec.memory.layout = instance::Layout::kBshd;
  expect_right(gpu, spec);
  spec.memory.v_differs = true;
  expect_right(gpu, spec);
  spec.memory.row_padding = 8;
  expect_right(gpu, spec);
}

TEST_CASE("backward case 10: a bias whose gradient is not wanted, and stride-0 expanded ones") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* pattern : {"bhqk", "1hqk", "b11k", "11q1", "1111"}) {
    ProblemSpec spec{.batch = 2,
                     .heads_q = 4,
                     .heads_kv = 2,
                     .seqlen_q = 130,
                     .seqlen_kv = 170,
                     .head_dim = 64,
                     .mask = pattern,
                     .bias = pattern};
    expect_right(gpu, spec);
    spec.memory.expand_broadcast = true;
    expect_right(gpu, with_bias(spec, pattern));
  }
}

TEST_CASE("backward case 10: dlse, also with a bias that is broadcast over keys") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* pattern : {"bhqk", "b1q1", "1hq1", "11q1", "bh11", "1g11", "1111"}) {
    ProblemSpec spec = with_bias({.batch = 2,
                                  .heads_q = 8,
                                  .heads_kv = 2,
                                  .seqlen_q = 130,
                                  .seqlen_kv = 170,
                                  .head_dim = 64},
                                 pattern);
    expect_right(gpu, spec);  // without dlse exactly 0 where it is broadcast over keys
    spec.want_dlse = true;
    expect_right(gpu, spec);
    spec.dbias_dtype = DType::kFloat32;
    expect_right(gpu, causal(spec, Diagonal::kBottomRight));
  }
}

// A dbias of full size where the bias is expanded: a plane for each batch element, here added up
// again on the host.
TEST_CASE("backward case 10: a gradient for each plane of an expanded bias") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec spec = with_bias(
      {.batch = 3, .heads_q = 4, .heads_kv = 2, .seqlen_q = 90, .seqlen_kv = 130, .head_dim = 64},
      "1hqk", DType::kFloat32);
  spec.memory.expand_broadcast = true;
  HostProblem problem(spec, all_cores());
  problem.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, problem);
  const std::size_t plane = 4 * 90 * 130;
  std::vector<float> planes(3 * plane);
  const cuda::DeviceBuffer full(*gpu.driver, planes.size() * sizeof(float));
  BackwardArgs args = mirror.backward_args();
  args.dbias = Tensor::contiguous(full.data(), DType::kFloat32, {3, 4, 90, 130});
  const cuda::Stream stream(*gpu.driver);
  gpu.context.backward(args, stream.get());
  stream.synchronize();
  mirror.download(problem);
  cuda::copy_to_host(*gpu.driver, planes.data(), full.data(), full.bytes());
  auto* const sum = static_cast<float*>(problem.backward_args().dbias->data);
  for (std::size_t i = 0; i < plane; ++i) {
    sum[i] = planes[i] + planes[plane + i] + planes[2 * plane + i];
  }
  const auto verdict = check::judge_backward(problem, Planes::every(), all_cores());
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("backward case 11: head ratios and head dims") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t ratio : {1, 2, 3, 4, 8, 32}) {
    expect_right(gpu, {.batch = 1,
                       .heads_q = 2 * ratio,
                       .heads_kv = 2,
                       .seqlen_q = 100,
                       .seqlen_kv = 150,
                       .head_dim = 64});
  }
  const auto dims = [&](DType dtype, std::int64_t head_dim, std::int64_t head_dim_v) {
    const ProblemSpec spec{.dtype = dtype,
                           .batch = 2,
                           .heads_q = 2,
                           .heads_kv = 1,
                           .seqlen_q = 150,
                           .seqlen_kv = 200,
                           .head_dim = head_dim,
                           .head_dim_v = head_dim_v};
    expect_right(gpu, with_bias(spec, "1hqk"));
    expect_right(gpu, causal(spec, Diagonal::kBottomRight));
  };
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const std::int64_t head_dim : {8, 16, 40, 64, 72, 80, 96, 128, 160, 192, 256, 33, 100}) {
      dims(dtype, head_dim, head_dim);
    }
    dims(dtype, 192, 128);
    dims(dtype, 48, 112);
    dims(dtype, 3, 17);
  }
}

TEST_CASE("backward case 12: a mask per kv head, and padding that is no prefix") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* pattern : {"bgqk", "1g1k", "b11k", "bgq1"}) {
    const ProblemSpec spec{.batch = 2,
                           .heads_q = 8,
                           .heads_kv = 2,
                           .seqlen_q = 130,
                           .seqlen_kv = 300,
                           .head_dim = 64,
                           .mask = pattern,
                           .mask_kind = MaskKind::kScattered};
    expect_right(gpu, with_bias(spec, "1gqk"));
    expect_right(gpu, causal(spec, Diagonal::kBottomRight));
  }
}

TEST_CASE("backward: without rows or keys everything is written as 0") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* bias : {"b1qk", "1h1k", "11q1"}) {
    const ProblemSpec no_keys{
        .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 70, .seqlen_kv = 0, .head_dim = 64};
    expect_right(gpu, with_bias(no_keys, bias));
    const ProblemSpec no_rows{
        .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 0, .seqlen_kv = 70, .head_dim = 64};
    expect_right(gpu, with_bias(no_rows, bias));
  }
}

}  // namespace
}  // namespace attnjit
