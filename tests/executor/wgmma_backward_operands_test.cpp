// The Hopper backward where operands are not what its copy engine brings: biases of fp32 and of
// rows that are not aligned, those of queries alone, gradients of any type and stride, and scales
// that are 0 or negative.
#include <doctest/doctest.h>

#include "bench.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::wgmma_backward_operands_test {
namespace {

using instance::ProblemSpec;
using tensor::BiasKind;
using tensor::MaskKind;

const ProblemSpec kSmall = {.batch = 2,
                            .heads_q = 2,
                            .heads_kv = 1,
                            .seqlen_q = 75,
                            .seqlen_kv = 139,
                            .head_dim = 64,
                            .backward = true};

void expect_right(Bench& bench, const ProblemSpec& spec,
                  const std::string& config = wgmma_backward(64)) {
  if (bench.leaves_out()) return;
  CAPTURE(instance::describe(spec));
  CAPTURE(config);
  CHECK(bench.backward(spec, codegen::find_arch("sm_90a"), config) == "");
}

// NaN is planted in keys past a batch element's own, which the mask or the lengths drop.
void drop_keys(ProblemSpec& spec) {
  spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
  spec.seqlens_q = {70, 33};
  spec.seqlens_kv = {130, 37};
}

TEST_CASE("wgmma backward: biases that are read one by one, and their gradients") {
  Bench bench;
  const std::string parts = with_dbias(wgmma_backward(64), "per_plane");
  ProblemSpec spec = kSmall;
  spec.want_dbias = true;
  spec.bias = "1hqk";
  expect_right(bench, spec);
  drop_keys(spec);
  spec.mask = "b11k";
  spec.bias_dtype = DType::kFloat32;
  expect_right(bench, spec);
  ProblemSpec aligned = spec;  // as the copy engine could bring it, had it 16 bits
  aligned.seqlen_kv = 160;
  expect_right(bench, aligned);
  spec.deterministic = true;
  spec.bias = "bhqk";
  expect_right(bench, spec, parts);
  ProblemSpec dead = kSmall;
  dead.head_dim = 40;
  dead.dtype = DType::kFloat16;
  dead.bias = "bgqk";
  dead.bias_kind = BiasKind::kMinusInfinity;  // rows may be dead
  dead.causal = true;
  dead.diagonal = Diagonal::kBottomRight;
  expect_right(bench, dead);
}

TEST_CASE("wgmma backward: what needs most registers") {
  Bench bench;
  ProblemSpec spec = kSmall;
  spec.want_dbias = true;
  spec.head_dim = 128;
  spec.softcap = 3;
  spec.bias = "b11k";
  expect_right(bench, spec);
  spec.softcap = 0;
  spec.head_dim = 96;
  spec.bias = "1hqk";
  spec.bias_dtype = DType::kFloat32;
  expect_right(bench, spec);
}

TEST_CASE("slow: wgmma backward: biases that are read one by one, of every kind") {
  Bench bench;
  const std::string parts = with_dbias(wgmma_backward(64), "per_plane");
  for (const int head_dim : {24, 64}) {
    for (const DType bias_dtype : {DType::kBFloat16, DType::kFloat32}) {
      ProblemSpec spec = kSmall;
      spec.head_dim = head_dim;
      spec.bias_dtype = bias_dtype;
      spec.want_dbias = true;
      for (const char* bias : {"bhqk", "1hqk", "bgqk", "b1qk"}) {
        spec.bias = bias;
        expect_right(bench, spec, parts);
      }
      spec.want_dbias = false;
      for (const BiasKind kind : {BiasKind::kMinusInfinity, BiasKind::kLowest, BiasKind::kHugeLogit,
                                  BiasKind::kVeryNegative, BiasKind::kGraded}) {
        spec.bias_kind = kind;
        expect_right(bench, spec);
      }
      spec.bias_kind = BiasKind::kNormal;
      spec.mask = "b1qk";
      spec.mask_kind = MaskKind::kBlocks;
      spec.prepare_mask = true;
      expect_right(bench, spec);
      spec.batch = 4;
      spec.bias = "shqk/2";
      expect_right(bench, spec);
    }
  }
}

TEST_CASE("wgmma backward: a bias over queries alone, and its gradient") {
  Bench bench;
  ProblemSpec spec = kSmall;
  spec.bias = "bhq1";
  spec.want_dbias = spec.want_dlse = true;
  expect_right(bench, spec);
  spec.dtype = DType::kFloat16;
  spec.bias_dtype = DType::kFloat32;
  drop_keys(spec);
  expect_right(bench, spec, wgmma_backward(128));
  ProblemSpec dead = kSmall;
  dead.bias = "b1q1";
  dead.bias_kind = BiasKind::kMinusInfinity;
  expect_right(bench, dead);
  dead.use_sink = dead.want_dsink = true;
  for (const BiasKind kind : {BiasKind::kLowest, BiasKind::kHugeLogit}) {
    dead.bias_kind = kind;
    expect_right(bench, dead);
  }
}

TEST_CASE("slow: wgmma backward: biases over queries alone, of every kind") {
  Bench bench;
  for (const char* bias : {"bhq1", "1h11", "b1q1", "bgq1"}) {
    for (const BiasKind kind : {BiasKind::kMinusInfinity, BiasKind::kLowest, BiasKind::kHugeLogit,
                                BiasKind::kVeryNegative, BiasKind::kGraded}) {
      for (const bool use_sink : {false, true}) {
        ProblemSpec spec = kSmall;
        spec.bias = bias;
        spec.bias_kind = kind;
        spec.use_sink = spec.want_dsink = use_sink;
        spec.want_dbias = true;
        expect_right(bench, spec);
      }
    }
  }
}

TEST_CASE("wgmma backward: a dbias of all axes in another type or with other strides") {
  Bench bench;
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 144;  // rows of the bias are aligned
  spec.bias = "bhqk";
  spec.want_dbias = true;
  spec.dbias_dtype = DType::kFloat32;
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  const std::string parts = with_dbias(wgmma_backward(64), "per_plane");
  expect_right(bench, spec, parts);
  spec.deterministic = true;
  expect_right(bench, spec, parts);
}

TEST_CASE("wgmma backward: scales that are 0 or negative") {
  Bench bench;
  ProblemSpec spec = kSmall;
  drop_keys(spec);
  for (const float scale : {0.0f, -0.2f, 1e-25f}) {
    spec.scale = scale;
    expect_right(bench, spec);
  }
  spec.scale = -0.2f;
  spec.dtype = DType::kFloat16;
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kDeadRows;
  spec.seqlen_kv = 144;
  spec.bias = "b11k";
  spec.want_dbias = true;
  expect_right(bench, spec);
}

}  // namespace
}  // namespace attnjit::executor_test::wgmma_backward_operands_test
