// Cases that other implementations got wrong, by the numbers of docs/reference/semantics.md.
#include "gpu.hpp"

namespace attnjit::forward_cases_test {
namespace {

using gpu_test::all_cores;
using gpu_test::causal;
using instance::HostProblem;
using instance::ProblemSpec;
using reference::Rows;
using tensor::BiasKind;
using tensor::MaskKind;

void expect_right(gpu_test::Gpu& gpu, const ProblemSpec& spec, const Rows& rows = Rows::every()) {
  HostProblem problem(spec, all_cores());
  const check::Verdict verdict =
      gpu_test::run(gpu.context, *gpu.driver, problem, rows, all_cores());
  INFO(instance::describe(spec));
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("case 1: seqlen_not_multiple_of_64") {
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

TEST_CASE("case 2: whole mask tiles off in the middle, then on again") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* pattern : {"b1qk", "bhqk", "b11k"}) {
    for (const std::int64_t batch : {2, 30}) {  // less and more than a block of rows for each SM
      ProblemSpec spec{.batch = batch,
                       .heads_q = 4,
                       .heads_kv = 2,
                       .seqlen_q = 700,
                       .seqlen_kv = 1000,
                       .head_dim = 64,
                       .mask = pattern,
                       .mask_kind = MaskKind::kBlocks};
      expect_right(gpu, spec);
      spec.poison_dropped_keys = true;
      expect_right(gpu, spec);
    }
  }
}

TEST_CASE("case 3: dead rows, heads, batches and leading rows") {
  ATTNJIT_NEED_GPU(gpu);
  for (const MaskKind kind :
       {MaskKind::kDeadRows, MaskKind::kDeadHead, MaskKind::kDeadBatch, MaskKind::kAllFalse}) {
    for (const char* pattern : {"bhqk", "bhq1", "bh1k", "bh11"}) {
      expect_right(gpu, {.batch = 2,
                         .heads_q = 4,
                         .heads_kv = 2,
                         .seqlen_q = 150,
                         .seqlen_kv = 200,
                         .head_dim = 64,
                         .mask = pattern,
                         .mask_kind = kind});
    }
  }
  const ProblemSpec tall{
      .batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 300, .seqlen_kv = 100, .head_dim = 64};
  expect_right(gpu, causal(tall, Diagonal::kBottomRight));
}

TEST_CASE("case 4: extreme scores") {
  ATTNJIT_NEED_GPU(gpu);
  for (const DType bias_dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const BiasKind kind : {BiasKind::kVeryNegative, BiasKind::kHugeLogit,
                                BiasKind::kMinusInfinity, BiasKind::kLowest}) {
      for (const char* pattern : {"bhqk", "1h1k", "bhq1", "b111"}) {
        expect_right(gpu, {.batch = 2,
                           .heads_q = 2,
                           .heads_kv = 1,
                           .seqlen_q = 130,
                           .seqlen_kv = 190,
                           .head_dim = 64,
                           .bias = pattern,
                           .bias_kind = kind,
                           .bias_dtype = bias_dtype});
      }
    }
  }
  for (const float scale : {0.0f, -1.0f, -0.1f}) {
    ProblemSpec spec{
        .batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 100, .seqlen_kv = 100, .head_dim = 64};
    spec.scale = scale;
    expect_right(gpu, spec);
    expect_right(gpu, causal(spec, Diagonal::kTopLeft));
  }
}

TEST_CASE("case 5: single query, single key, long decode") {
  ATTNJIT_NEED_GPU(gpu);
  expect_right(
      gpu,
      {.batch = 3, .heads_q = 4, .heads_kv = 2, .seqlen_q = 77, .seqlen_kv = 1, .head_dim = 64});
  expect_right(gpu, {.batch = 3,
                     .heads_q = 4,
                     .heads_kv = 2,
                     .seqlen_q = 1,
                     .seqlen_kv = 1,
                     .head_dim = 64,
                     .mask = "bhqk",
                     .bias = "bhqk"});
  const ProblemSpec decode{
      .batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 1, .seqlen_kv = 524288, .head_dim = 64};
  expect_right(gpu, decode);
  expect_right(gpu, causal(decode, Diagonal::kBottomRight));
}

TEST_CASE("case 6: NaN and Inf in K and V where nobody looks") {
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
  expect_right(gpu, spec);
}

TEST_CASE("case 7: more than 2^31 mask elements") {
  ATTNJIT_NEED_GPU(gpu);
  expect_right(gpu,
               {.batch = 1,
                .heads_q = 2,
                .heads_kv = 1,
                .seqlen_q = 33000,
                .seqlen_kv = 33000,
                .head_dim = 64,
                .mask = "1hqk",
                .mask_kind = MaskKind::kRandom},
               Rows::sample(33000, 24, 1));
}

TEST_CASE("case 7: more than 2^31 bias elements") {
  ATTNJIT_NEED_GPU(gpu);
  expect_right(gpu,
               {.batch = 1,
                .heads_q = 2,
                .heads_kv = 1,
                .seqlen_q = 33000,
                .seqlen_kv = 33000,
                .head_dim = 64,
                .bias = "1hqk"},
               Rows::sample(33000, 24, 1));
}

TEST_CASE("case 7: strides that pass 2^31 elements") {
  ATTNJIT_NEED_GPU(gpu);
  HostProblem problem(
      {.batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 70, .seqlen_kv = 300, .head_dim = 64},
      1);
  problem.poison_outputs();
  check::DeviceMirror mirror(*gpu.driver, problem);
  ForwardArgs args = mirror.args();
  // K again, its rows 2^23 elements apart: row 299 lies beyond 2^31 elements.
  const std::int64_t stride = std::int64_t{1} << 23;
  const Tensor k = problem.args().k;
  const cuda::DeviceBuffer wide(*gpu.driver, static_cast<std::size_t>(stride) * 300 * 2);
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t row = 0; row < 300; ++row) {
      const auto* source =
          static_cast<const std::uint16_t*>(k.data) + head * k.strides[1] + row * k.strides[2];
      auto* target = static_cast<std::uint16_t*>(wide.data()) + row * stride + head * 64;
      cuda::copy_to_device(*gpu.driver, target, source, 64 * 2);
    }
  }
  args.k.data = wide.data();
  args.k.strides = {stride * 300, 64, stride, 1};
  const cuda::Stream stream(*gpu.driver);
  gpu.context.forward(args, stream.get());
  stream.synchronize();
  mirror.download(problem);
  const check::Verdict verdict = check::judge_forward(problem, Rows::every(), all_cores());
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("case 7: 70,000 planes") {
  ATTNJIT_NEED_GPU(gpu);
  expect_right(gpu, {.batch = 700,
                     .heads_q = 100,
                     .heads_kv = 100,
                     .seqlen_q = 3,
                     .seqlen_kv = 5,
                     .head_dim = 8});
  expect_right(gpu, {.batch = 70000,
                     .heads_q = 1,
                     .heads_kv = 1,
                     .seqlen_q = 3,
                     .seqlen_kv = 5,
                     .head_dim = 8,
                     .mask = "b11k"});
}

TEST_CASE("case 8: bias rows of odd length, odd bases, fp32 bias under bf16") {
  ATTNJIT_NEED_GPU(gpu);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const std::int64_t length : {127, 129, 200, 201}) {
      ProblemSpec spec{.batch = 2,
                       .heads_q = 2,
                       .heads_kv = 2,
                       .seqlen_q = 90,
                       .seqlen_kv = length,
                       .head_dim = 64,
                       .bias = "bhqk",
                       .bias_dtype = dtype};
      expect_right(gpu, spec);
      spec.memory.base_offset = 1;
      expect_right(gpu, spec);
      spec.memory = {.row_padding = 3};
      expect_right(gpu, spec);
    }
  }
}

TEST_CASE("case 9: k and v with different strides, BSHD memory") {
  ATTNJIT_NEED_GPU(gpu);
  ProblemSpec spec{
      .batch = 2, .heads_q = 6, .heads_kv = 3, .seqlen_q = 130, .seqlen_kv = 170, .head_dim = 64};
  spec.memory.layout = instance::Layout::kBshd;
  expect_right(gpu, spec);
  spec.memory.v_differs = true;
  expect_right(gpu, spec);
}

TEST_CASE("case 10: a stride-0 expanded bias and mask") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* pattern : {"1hqk", "b11k", "11q1", "1111"}) {
    ProblemSpec spec{.batch = 2,
                     .heads_q = 4,
                     .heads_kv = 2,
                     .seqlen_q = 130,
                     .seqlen_kv = 170,
                     .head_dim = 64,
                     .mask = pattern,
                     .bias = pattern};
    spec.memory.expand_broadcast = true;
    expect_right(gpu, spec);
  }
}

TEST_CASE("case 11: head ratios and head dims") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t ratio : {1, 2, 3, 4, 8, 32}) {
    expect_right(gpu, {.batch = 1,
                       .heads_q = 2 * ratio,
                       .heads_kv = 2,
                       .seqlen_q = 100,
                       .seqlen_kv = 150,
                       .head_dim = 64});
  }
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const std::int64_t head_dim : {8, 16, 40, 64, 72, 80, 96, 128, 160, 192, 256, 33, 100}) {
      ProblemSpec spec{.dtype = dtype,
                       .batch = 1,
                       .heads_q = 2,
                       .heads_kv = 1,
                       .seqlen_q = 150,
                       .seqlen_kv = 200,
                       .head_dim = head_dim};
      expect_right(gpu, spec);
      expect_right(gpu, causal(spec, Diagonal::kBottomRight));
    }
    expect_right(gpu, {.dtype = dtype,
                       .batch = 2,
                       .heads_q = 4,
                       .heads_kv = 4,
                       .seqlen_q = 150,
                       .seqlen_kv = 200,
                       .head_dim = 192,
                       .head_dim_v = 128});
    expect_right(gpu, {.dtype = dtype,
                       .batch = 2,
                       .heads_q = 4,
                       .heads_kv = 4,
                       .seqlen_q = 150,
                       .seqlen_kv = 200,
                       .head_dim = 48,
                       .head_dim_v = 112});
    expect_right(gpu, {.dtype = dtype,
                       .batch = 2,
                       .heads_q = 4,
                       .heads_kv = 4,
                       .seqlen_q = 150,
                       .seqlen_kv = 200,
                       .head_dim = 1,
                       .head_dim_v = 17});
    // One column leaves the rule of a row a single element to judge by; one key makes it exact.
    expect_right(gpu, {.dtype = dtype,
                       .batch = 2,
                       .heads_q = 4,
                       .heads_kv = 4,
                       .seqlen_q = 150,
                       .seqlen_kv = 1,
                       .head_dim = 3,
                       .head_dim_v = 1});
  }
}

TEST_CASE("case 12: a mask per kv head, and padding that is no prefix") {
  ATTNJIT_NEED_GPU(gpu);
  for (const char* pattern : {"bgqk", "1g1k", "b11k", "bgq1"}) {
    ProblemSpec spec{.batch = 2,
                     .heads_q = 8,
                     .heads_kv = 2,
                     .seqlen_q = 130,
                     .seqlen_kv = 300,
                     .head_dim = 64,
                     .mask = pattern,
                     .mask_kind = MaskKind::kScattered};
    expect_right(gpu, spec);
    expect_right(gpu, causal(spec, Diagonal::kBottomRight));
  }
}

TEST_CASE("the largest scores of rows and heads") {
  ATTNJIT_NEED_GPU(gpu);
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const std::int64_t rows : {1, 70, 900}) {
      ProblemSpec spec{.batch = 3,
                       .heads_q = 8,
                       .heads_kv = 2,
                       .seqlen_q = rows,
                       .seqlen_kv = 1500,
                       .head_dim = head_dim,
                       .mask = "bhqk",
                       .mask_kind = MaskKind::kDeadHead,
                       .use_sink = true,
                       .want_row_max = true,
                       .want_max_logits = true};
      expect_right(gpu, spec);
      spec.want_row_max = false;
      spec.mask.clear();
      expect_right(gpu, causal(spec, Diagonal::kBottomRight));
      spec.seqlen_kv = 0;
      expect_right(gpu, spec);
    }
  }
  expect_right(gpu, {.batch = 2,
                     .heads_q = 4,
                     .heads_kv = 2,
                     .seqlen_q = 0,
                     .seqlen_kv = 70,
                     .head_dim = 64,
                     .want_max_logits = true});
}

TEST_CASE("empty problems launch nothing and dead problems write everything") {
  ATTNJIT_NEED_GPU(gpu);
  expect_right(
      gpu,
      {.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 70, .seqlen_kv = 0, .head_dim = 64});
  expect_right(
      gpu,
      {.batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 0, .seqlen_kv = 70, .head_dim = 64});
  expect_right(gpu, {.batch = 2,
                     .heads_q = 2,
                     .heads_kv = 1,
                     .seqlen_q = 70,
                     .seqlen_kv = 0,
                     .head_dim = 64,
                     .mask = "b1qk"});
}

}  // namespace
}  // namespace attnjit::forward_cases_test
