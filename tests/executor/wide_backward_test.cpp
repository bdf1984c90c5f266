// The Hopper backward of wide heads by name: the kernel of dk and dv and that of dq.
#include <doctest/doctest.h>

#include <utility>

#include "bench.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::wide_backward_test {
namespace {

using instance::ProblemSpec;
using tensor::BiasKind;
using tensor::MaskKind;

class WideBackward {
 public:
  void expect_right(const ProblemSpec& spec, const std::string& config = wide_backward()) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    CHECK(bench_.backward(spec, codegen::find_arch("sm_90a"), config) == "");
  }

 private:
  Bench bench_;
};

// The narrowest of wide heads; rings go round, and tiles of both kernels are cut.
const ProblemSpec kSmall = {.batch = 2,
                            .heads_q = 2,
                            .heads_kv = 1,
                            .seqlen_q = 200,
                            .seqlen_kv = 208,
                            .head_dim = 136,
                            .backward = true};

TEST_CASE_FIXTURE(WideBackward, "slow: wide backward: both types, from 136 to 256 columns") {
  const std::pair<int, int> dims[] = {{136, 136}, {256, 256}, {192, 128}, {64, 200}, {256, 8}};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const auto& [head_dim, head_dim_v] : dims) {
      ProblemSpec spec = kSmall;
      spec.dtype = dtype;
      spec.head_dim = head_dim;
      spec.head_dim_v = head_dim_v;
      expect_right(spec);
    }
  }
  expect_right(kSmall, wide_backward(3));
}

TEST_CASE_FIXTURE(WideBackward, "wide backward: rows and keys around the edges of tiles") {
  for (const int seqlen : {1, 2, 3, 63, 64, 65, 127, 128, 129, 257}) {
    ProblemSpec spec = kSmall;
    spec.seqlen_q = spec.seqlen_kv = seqlen;
    expect_right(spec);
  }
  ProblemSpec none = kSmall;
  none.seqlen_q = 0;
  expect_right(none);
  none.seqlen_q = 64;
  none.seqlen_kv = 0;
  expect_right(none);
}

TEST_CASE_FIXTURE(
    WideBackward,
    "wide backward: query heads that share a kv head, and queries split over blocks") {
  ProblemSpec spec = kSmall;
  spec.heads_q = 6;
  spec.heads_kv = 2;
  spec.want_dlse = true;
  expect_right(spec);
  spec = {.heads_q = 3, .seqlen_q = 700, .seqlen_kv = 100, .head_dim = 160, .backward = true};
  expect_right(spec, wide_backward(2, true));
}

TEST_CASE_FIXTURE(WideBackward, "wide backward: bands to both sides, whose rows may have no keys") {
  for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
    ProblemSpec spec = kSmall;
    spec.seqlen_q = 300;
    spec.causal = true;
    spec.diagonal = diagonal;
    expect_right(spec);
    spec.causal = false;
    spec.window = {30, 20};
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WideBackward, "wide backward: scales of any size and sign") {
  for (const float scale : {1.0f, 4.0f, 1e-9f, 0.0f, -0.3f}) {
    ProblemSpec spec = kSmall;
    spec.scale = scale;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WideBackward,
                  "wide backward: NaN and Inf in dead rows and unread keys stay there") {
  ProblemSpec spec = kSmall;
  spec.poison_dropped_keys = true;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {190, 33};
  spec.seqlens_kv = {150, 37};
  spec.want_dlse = true;
  spec.bias = "bhqk";
  expect_right(spec);
  spec.bias = "";
  spec.seqlen_kv = 207;  // a tile of keys with a row past the last multiple of four
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec);
}

TEST_CASE_FIXTURE(WideBackward, "slow: wide backward: biases of every pattern and kind") {
  ProblemSpec spec = kSmall;
  for (const char* bias : {"bhqk", "1hqk", "b1qk", "b11k", "1h1k"}) {
    spec.bias = bias;
    expect_right(spec);
  }
  spec.bias = "bgqk";
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  for (const BiasKind kind : {BiasKind::kMinusInfinity, BiasKind::kHugeLogit,
                              BiasKind::kVeryNegative, BiasKind::kGraded}) {
    spec.bias_kind = kind;
    expect_right(spec);
  }
  spec.bias_kind = BiasKind::kNormal;
  spec.bias = "b11k";
  spec.bias_dtype = DType::kFloat32;
  spec.want_dbias = true;
  expect_right(spec);
}

TEST_CASE_FIXTURE(WideBackward, "slow: wide backward: a softcap, beside bands, masks and biases") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ProblemSpec spec = kSmall;
    spec.dtype = dtype;
    spec.head_dim = 256;
    for (const float softcap : {0.05f, 50.0f}) {
      spec.softcap = softcap;
      expect_right(spec);
    }
    spec.window = {60, 0};
    spec.diagonal = Diagonal::kBottomRight;
    expect_right(spec);
    spec.mask = "b1qk";
    spec.bias = "b11k";
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WideBackward, "wide backward: a batch without elements") {
  ProblemSpec spec = kSmall;
  spec.batch = 0;
  expect_right(spec);
  spec.bias = "1h1k";
  spec.want_dbias = true;
  expect_right(spec);
}

TEST_CASE_FIXTURE(WideBackward, "wide backward: a dbias that has a kernel of its own") {
  ProblemSpec spec = kSmall;
  spec.bias = "1hqk";
  spec.want_dbias = spec.deterministic = true;
  expect_right(spec);
}

TEST_CASE_FIXTURE(WideBackward, "wide backward: a softcap beside slopes of ALiBi") {
  ProblemSpec spec = kSmall;
  spec.softcap = 3;
  spec.alibi = "h";
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec);
  spec.bias = "bhqk";
  expect_right(spec);
  spec.softcap = 0;
  spec.bias_dtype = DType::kFloat32;
  expect_right(spec);
}

TEST_CASE_FIXTURE(WideBackward, "slow: wide backward: masks over keys, with biases and without") {
  ProblemSpec spec = kSmall;
  spec.poison_dropped_keys = true;
  spec.mask_kind = MaskKind::kScattered;
  for (const char* mask : {"b11k", "bh1k"}) {
    spec.mask = mask;
    for (const char* bias : {"", "b11k", "bhqk"}) {
      spec.bias = bias;
      expect_right(spec);
    }
  }
  spec.poison_dropped_keys = false;
  spec.bias = "";
  for (const char* mask : {"b1qk", "bhqk"}) {
    spec.mask = mask;
    for (const MaskKind kind : {MaskKind::kRandom, MaskKind::kBlocks, MaskKind::kDeadRows}) {
      spec.mask_kind = kind;
      expect_right(spec);
    }
  }
}

TEST_CASE_FIXTURE(WideBackward, "wide backward: tensors in any order of memory") {
  ProblemSpec spec = kSmall;
  spec.memory.layout = instance::Layout::kBshd;
  expect_right(spec);
  spec.memory.v_differs = true;
  spec.memory.expand_dout = true;
  expect_right(spec);
}

}  // namespace
}  // namespace attnjit::executor_test::wide_backward_test
