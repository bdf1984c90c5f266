// The forward's kernels by name: each way through them, under several configurations.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "bench.hpp"

namespace attnjit::executor_test::kernels_test {
namespace {

using instance::ProblemSpec;
using tensor::BiasKind;
using tensor::MaskKind;

class Kernels {
 public:
  /// Expects `spec` to be right under each of `configs`.
  void expect_right(const ProblemSpec& spec, const std::vector<std::string>& configs = {"{}"}) {
    for (const std::string& config : configs) {
      if (bench_.leaves_out()) continue;
      CAPTURE(instance::describe(spec));
      CAPTURE(config);
      CHECK(bench_.forward(spec, codegen::find_arch("sm_90a"), config) == "");
    }
  }
  Bench& bench() { return bench_; }

 private:
  Bench bench_;
};

const ProblemSpec kSmall = {
    .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 70, .seqlen_kv = 150, .head_dim = 64};

// One buffer for K and V, rings of two and of three, and two row tiles to a warp.
const std::vector<std::string> kWalks = {
    R"({"block_q": 64, "block_kv": 64, "num_stages": 1, "num_warps": 4})",
    R"({"block_q": 64, "block_kv": 32, "num_stages": 2, "num_warps": 4})",
    R"({"block_q": 32, "block_kv": 32, "num_stages": 3, "num_warps": 2})",
    R"({"block_q": 64, "block_kv": 64, "num_stages": 2, "num_warps": 2})"};

const std::vector<std::string> kSoftmaxes = {R"({"softmax": "max_free"})",
                                             R"({"softmax": "running_max"})"};

TEST_CASE_FIXTURE(Kernels, "kernels: every walk over the keys") {
  expect_right(kSmall, kWalks);
  ProblemSpec causal = kSmall;
  causal.causal = true;
  causal.diagonal = Diagonal::kBottomRight;
  expect_right(causal, kWalks);
}

TEST_CASE_FIXTURE(Kernels, "kernels: split keys are added up by the combine step") {
  for (const bool want_lse : {true, false}) {
    ProblemSpec decode = {.batch = 2,
                          .heads_q = 2,
                          .heads_kv = 2,
                          .seqlen_q = 3,
                          .seqlen_kv = 900,
                          .head_dim = 64,
                          .head_dim_v = 40,
                          .bias = "b11k",
                          .bias_kind = BiasKind::kMinusInfinity};
    decode.want_lse = want_lse;
    expect_right(decode, {"{}", R"({"block_kv": 64, "num_stages": 1})"});
  }
}

TEST_CASE_FIXTURE(Kernels, "kernels: more splits than the combine step reads at a time") {
  for (const int head_dim_v : {16, 40, 64, 160}) {
    expect_right({.batch = 1,
                  .heads_q = 1,
                  .heads_kv = 1,
                  .seqlen_q = 1,
                  .seqlen_kv = 5000,
                  .head_dim = 32,
                  .head_dim_v = head_dim_v,
                  .want_row_max = true},
                 {R"({"block_kv": 32})"});
  }
}

TEST_CASE_FIXTURE(Kernels, "kernels: pack_gqa") {
  const std::vector<std::string> configs = {
      R"({"pack_gqa": true, "block_q": 16, "block_kv": 32, "num_warps": 1})",
      R"({"pack_gqa": true, "block_q": 64, "block_kv": 64, "num_warps": 4})",
      R"({"pack_gqa": false, "block_q": 16, "block_kv": 32, "num_warps": 1})"};
  ProblemSpec spec = {
      .batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 5, .seqlen_kv = 200, .head_dim = 64};
  expect_right(spec, configs);
  spec.mask = "bgqk";
  spec.bias = "1hqk";
  expect_right(spec, configs);
}

TEST_CASE_FIXTURE(Kernels, "kernels: scores that leave the range of the softmax's reference") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ProblemSpec spec = kSmall;
    spec.dtype = dtype;
    spec.bias = "11qk";
    for (const BiasKind kind : {BiasKind::kHugeLogit, BiasKind::kVeryNegative}) {
      spec.bias_kind = kind;
      expect_right(spec, kSoftmaxes);
    }
  }
}

TEST_CASE_FIXTURE(Kernels, "kernels: a diagonal that moves, off the tensors as well") {
  ProblemSpec spec = kSmall;
  spec.poison_dropped_keys = true;
  for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
    spec.diagonal = diagonal;
    for (const std::int64_t offset : {-200, -40, 33, 80, 1 << 29, -(1 << 29)}) {
      spec.diagonal_offset = offset;
      spec.causal = true;
      spec.window = {};
      expect_right(spec);
      spec.causal = false;
      spec.window = {20, 10};
      expect_right(spec);
    }
  }
}

// Finite, none, far above and far below all scores, and near the least digits of a key's share.
const std::vector<float> kSinks = {0.5f, -std::numeric_limits<float>::infinity(), 80.0f, -1e30f,
                                   17.0f};

TEST_CASE_FIXTURE(Kernels, "kernels: sinks, also of rows without a live key and of split keys") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    ProblemSpec spec = {.batch = 2,
                        .heads_q = 5,
                        .heads_kv = 5,
                        .seqlen_q = 70,
                        .seqlen_kv = 50,
                        .head_dim = 64,
                        .mask = "b1qk",
                        .bias = "1hq1",
                        .mask_kind = MaskKind::kDeadRows,
                        .bias_kind = BiasKind::kMinusInfinity,
                        .use_sink = true,
                        .sink_dtype = dtype,
                        .sinks = kSinks,
                        .use_seqlens_q = true};
    expect_right(spec, kSoftmaxes);
    spec.seqlen_q = 2;
    spec.seqlen_kv = 3000;
    spec.heads_q = 10;
    expect_right(spec);
    spec.seqlen_kv = 0;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(Kernels,
                  "slow: kernels: capped scores, from caps that bind to caps that do not") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ProblemSpec spec = kSmall;
    spec.dtype = dtype;
    for (const float cap : {1e-45f, 1e-3f, 0.5f, 30.0f, 1e4f, 3e38f}) {
      spec.softcap = cap;
      spec.scale = cap == 30.0f ? -4.0f : 0.125f;
      spec.bias = cap == 0.5f ? "1hqk" : "";
      expect_right(spec, kSoftmaxes);
    }
  }
}

TEST_CASE_FIXTURE(Kernels, "kernels: every kind of mask, by key, by pair and by query") {
  ProblemSpec spec = kSmall;
  for (const char* pattern : {"b11k", "bhqk", "bhq1"}) {
    spec.mask = pattern;
    for (int kind = 0; kind <= static_cast<int>(MaskKind::kAllFalse); ++kind) {
      spec.mask_kind = static_cast<MaskKind>(kind);
      expect_right(spec);
    }
  }
}

TEST_CASE_FIXTURE(Kernels, "kernels: every kind of bias, in every width and extent") {
  ProblemSpec spec = kSmall;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    spec.bias_dtype = dtype;
    for (const char* pattern : {"1h1k", "bhqk", "bhq1"}) {
      spec.bias = pattern;
      for (int kind = 0; kind <= static_cast<int>(BiasKind::kGraded); ++kind) {
        spec.bias_kind = static_cast<BiasKind>(kind);
        expect_right(spec);
      }
    }
  }
}

TEST_CASE_FIXTURE(Kernels, "kernels: a mask that is the bias's own choice, and both at once") {
  ProblemSpec spec = kSmall;
  spec.bias = spec.mask = "bhqk";
  spec.mask_kind = MaskKind::kTopBias;
  spec.mask_density = 0.1;
  expect_right(spec, kSoftmaxes);
}

TEST_CASE_FIXTURE(Kernels, "kernels: windows and lengths per batch element") {
  ProblemSpec spec = kSmall;
  spec.batch = 4;
  spec.window = {20, 10};
  spec.diagonal = Diagonal::kTopLeft;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.poison_dropped_keys = true;
  expect_right(spec, kWalks);
}

TEST_CASE_FIXTURE(Kernels, "kernels: rows that are not aligned") {
  ProblemSpec spec = kSmall;
  spec.memory.base_offset = 1;
  expect_right(spec, kWalks);
  spec.memory = {.row_padding = 3};
  spec.bias = spec.mask = "11qk";
  expect_right(spec);
  spec.head_dim = 33;
  expect_right(spec);
}

TEST_CASE_FIXTURE(Kernels, "kernels: narrow and wide heads") {
  ProblemSpec spec = kSmall;
  spec.head_dim = 256;
  expect_right(spec, {"{}", R"({"block_q": 64, "block_kv": 32, "num_stages": 2})"});
  spec.head_dim = 8;
  expect_right(spec, kSoftmaxes);
  spec.head_dim = 48;
  spec.head_dim_v = 112;
  expect_right(spec, kSoftmaxes);
}

TEST_CASE_FIXTURE(Kernels, "kernels: no keys, and no rows") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 0;
  expect_right(spec, kWalks);
  spec.mask = spec.bias = "b1qk";
  expect_right(spec);
  spec = kSmall;
  spec.seqlen_q = 0;
  expect_right(spec);
}

TEST_CASE_FIXTURE(Kernels,
                  "kernels: compiled once for all calls of a kind, on any number of threads") {
  const auto loaded = [&] {
    const cache::Counters counters = bench().executor().counters();
    return counters.builds + counters.disk_hits;
  };
  expect_right(kSmall);
  const auto kernels = loaded();
  CHECK(kernels > 0);
  ProblemSpec longer = kSmall;
  longer.seqlen_q = 80;
  longer.seed = 2;
  expect_right(longer);
  CHECK(loaded() == kernels);
  Bench several({}, 4);
  CHECK(several.forward(kSmall, codegen::find_arch("sm_90a")) == "");
}

}  // namespace
}  // namespace attnjit::executor_test::kernels_test
