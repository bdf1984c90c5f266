// The Hopper backward by name: its tiles, the edges of its tensor maps, its walk over heads, and
// what it promises of NaN.
#include "wgmma_backward.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "bench.hpp"

namespace attnjit::executor_test::wgmma_backward_test {
namespace {

using instance::ProblemSpec;
using tensor::BiasKind;
using tensor::MaskKind;

class WgmmaBackward {
 public:
  void expect_right(const ProblemSpec& spec, const std::string& config = wgmma_backward(64),
                    const codegen::Arch& arch = codegen::find_arch("sm_90a")) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    CHECK(bench_.backward(spec, arch, config) == "");
  }

 private:
  Bench bench_;
};

const ProblemSpec kSmall = {.batch = 2,
                            .heads_q = 2,
                            .heads_kv = 1,
                            .seqlen_q = 150,
                            .seqlen_kv = 200,
                            .head_dim = 64,
                            .backward = true};

bool reduces(const std::string& bias) {
  return bias.ends_with("qk") && (bias[0] == '1' || bias[1] == '1');
}

TEST_CASE_FIXTURE(WgmmaBackward,
                  "slow: wgmma backward: tiles of 64 and 128 queries, rings of two and three") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ProblemSpec spec = kSmall;
    spec.dtype = dtype;
    for (const auto& [block_q, stages] : {std::pair{64, 2}, {64, 3}, {128, 2}}) {
      expect_right(spec, wgmma_backward(block_q, stages));
    }
  }
}

TEST_CASE_FIXTURE(WgmmaBackward, "wgmma backward: rows and keys around the edges of tiles") {
  for (const int seqlen : {1, 2, 16, 63, 64, 65, 127, 128, 129, 191, 257}) {
    ProblemSpec spec = kSmall;
    spec.seqlen_q = spec.seqlen_kv = seqlen;
    expect_right(spec);
    expect_right(spec, wgmma_backward(128));
  }
  ProblemSpec none = kSmall;
  none.seqlen_q = 0;
  expect_right(none);
  none.seqlen_q = 64;
  none.seqlen_kv = 0;
  expect_right(none);
}

TEST_CASE_FIXTURE(WgmmaBackward, "slow: wgmma backward: widths that are no slabs") {
  const std::pair<int, int> dims[] = {{8, 8}, {40, 96}, {96, 40}, {72, 128}, {128, 128}};
  for (const auto& [head_dim, head_dim_v] : dims) {
    ProblemSpec spec = kSmall;
    spec.head_dim = head_dim;
    spec.head_dim_v = head_dim_v;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(
    WgmmaBackward,
    "wgmma backward: query heads that share a kv head, and queries split over blocks") {
  ProblemSpec spec = kSmall;
  spec.heads_q = 6;
  spec.heads_kv = 2;
  spec.want_dlse = true;
  expect_right(spec);
  spec = {.heads_q = 3, .seqlen_q = 700, .seqlen_kv = 100, .head_dim = 128, .backward = true};
  expect_right(spec, wgmma_backward(64, 2, true));
}

TEST_CASE_FIXTURE(WgmmaBackward,
                  "wgmma backward: bands to both sides, whose rows may have no keys") {
  for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
    ProblemSpec spec = kSmall;
    spec.seqlen_q = 300;
    spec.causal = true;
    spec.diagonal = diagonal;
    expect_right(spec);
    expect_right(spec, wgmma_backward(128));
    spec.causal = false;
    spec.window = {30, 20};
    expect_right(spec);
  }
}

// In fp32 and not as bf16x3, lse of such scores would have no more digits.
TEST_CASE_FIXTURE(WgmmaBackward, "wgmma backward: scores of any size") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ProblemSpec spec = kSmall;
    spec.dtype = dtype;
    for (const float scale : {1.0f, 4.0f, 1e-3f, 1e-9f}) {
      spec.scale = scale;
      expect_right(spec);
    }
  }
}

TEST_CASE_FIXTURE(WgmmaBackward,
                  "wgmma backward: NaN and Inf in dead rows and unread keys stay there") {
  ProblemSpec spec = kSmall;
  spec.poison_dropped_keys = true;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {140, 33};
  spec.seqlens_kv = {150, 37};
  spec.want_dlse = true;
  for (const int block_q : {64, 128}) {
    expect_right(spec, wgmma_backward(block_q));
    spec.causal = true;
    spec.diagonal = Diagonal::kBottomRight;
    expect_right(spec, wgmma_backward(block_q));
    spec.causal = false;
  }
}

// Biases over queries and keys come in tiles; rows of 208 keys are aligned.
TEST_CASE_FIXTURE(WgmmaBackward, "slow: wgmma backward: biases of every pattern and kind") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 208;
  for (const char* bias : {"bhqk", "1hqk", "b1qk", "b11k", "1h1k"}) {
    spec.bias = bias;
    expect_right(spec);
    expect_right(spec, wgmma_backward(64, 3));
  }
  spec.bias = "bgqk";
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  for (const BiasKind kind : {BiasKind::kMinusInfinity, BiasKind::kLowest, BiasKind::kHugeLogit,
                              BiasKind::kVeryNegative, BiasKind::kGraded}) {
    spec.bias_kind = kind;
    expect_right(spec);
  }
  spec.bias_kind = BiasKind::kNormal;
  spec.dtype = DType::kFloat16;
  expect_right(spec);
  spec.bias = "b11k";
  spec.bias_dtype = DType::kFloat32;
  expect_right(spec, wgmma_backward(128));
}

// Stored tile by tile, with zeros between; so with a part for each plane, which are added up;
// summed over queries; added up over batch or heads at once.
TEST_CASE_FIXTURE(WgmmaBackward, "slow: wgmma backward: the gradient of a bias of every pattern") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 208;
  spec.want_dbias = true;
  for (const char* bias : {"bhqk", "1hqk", "b1qk", "11qk", "bh1k", "b11k", "111k"}) {
    spec.bias = bias;
    for (const bool causal : {false, true}) {
      spec.causal = causal;
      spec.diagonal = causal ? Diagonal::kTopLeft : Diagonal::kUnspecified;
      expect_right(spec);
      if (reduces(bias)) expect_right(spec, with_dbias(wgmma_backward(64), "add"));
    }
  }
  spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
  spec.seqlens_q = {140, 33};
  spec.seqlens_kv = {150, 37};
  for (const char* bias : {"bhqk", "1hqk", "b11k"}) {
    spec.bias = bias;
    expect_right(spec);
    if (reduces(bias)) expect_right(spec, with_dbias(wgmma_backward(64), "add"));
  }
}

// Sums over the batch are 0.
TEST_CASE_FIXTURE(WgmmaBackward, "wgmma backward: a batch without elements") {
  ProblemSpec spec = kSmall;
  spec.batch = 0;
  spec.seqlen_kv = 208;
  expect_right(spec);
  spec.want_dbias = true;
  for (const char* bias : {"bhqk", "1hqk", "b1qk", "1h1k"}) {
    spec.bias = bias;
    expect_right(spec);
  }
  spec.bias = "1hqk";
  expect_right(spec, with_dbias(wgmma_backward(64), "add"));
  spec.deterministic = true;
  expect_right(spec);
}

// Parts of a dbias that is fp32 and not aligned, beside a mask that empties tiles; each has its
// zeros, and dq its order where bits are not to vary.
TEST_CASE_FIXTURE(WgmmaBackward, "wgmma backward: a dbias of few planes that are kept apart") {
  ProblemSpec spec = kSmall;
  spec.seqlen_q = 200;
  spec.seqlen_kv = 264;
  spec.want_dbias = true;
  spec.bias = "1hqk";
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec);
  spec.causal = false;
  spec.diagonal = Diagonal::kUnspecified;
  spec.dbias_dtype = DType::kFloat32;
  spec.mask = "b11k";
  spec.deterministic = true;
  expect_right(spec);
  // Rows of dbias that are padded to whole fragments, whose last elements no key has.
  ProblemSpec padded = kSmall;
  padded.batch = 4;
  padded.seqlen_q = 1;  // whose row of the bias is aligned
  padded.seqlen_kv = 33;
  padded.want_dbias = true;
  padded.bias = "1hqk";
  expect_right(padded, with_dbias(wgmma_backward(64), "per_plane"));
}

TEST_CASE_FIXTURE(WgmmaBackward,
                  "slow: wgmma backward: the gradient of a bias beside other choices") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 208;
  spec.want_dbias = true;
  spec.bias = "b11k";
  expect_right(spec, wgmma_backward(128));
  expect_right(spec, wgmma_backward(64, 2, true));
  spec.bias = "bhqk";
  expect_right(spec, wgmma_backward(64, 2, true));
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kBlocks;
  for (const char* bias : {"bhqk", "b1qk"}) {
    spec.bias = bias;
    expect_right(spec);
  }
  spec.mask.clear();
  spec.dtype = DType::kFloat16;
  for (const char* bias : {"bhqk", "1hqk", "b11k"}) {
    spec.bias = bias;
    expect_right(spec);
  }
  spec.bias = "1hqk";
  spec.dbias_dtype = DType::kFloat32;
  expect_right(spec);
  // Its rows are no multiples of 16 bytes.
  spec.seqlen_q = spec.seqlen_kv = 131;
  spec.bias = "1h1k";
  expect_right(spec);
}

TEST_CASE_FIXTURE(WgmmaBackward, "wgmma backward: dq in the order of the keys") {
  ProblemSpec spec = kSmall;
  spec.seqlen_q = 300;
  spec.seqlen_kv = 400;
  spec.deterministic = true;
  expect_right(spec);
  expect_right(spec, wgmma_backward(128));
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {290, 33};
  spec.seqlens_kv = {390, 260};
  spec.diagonal = Diagonal::kBottomRight;
  spec.causal = true;  // the last keys come first
  expect_right(spec);
  spec.causal = false;
  spec.window = {30, 20};
  expect_right(spec);
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kBlocks;  // key tiles without a score take their turn all the same
  spec.bias = "b11k";
  spec.want_dbias = true;
  expect_right(spec);
}

// On a device of few SMs, so that thread blocks have several places after another.
TEST_CASE_FIXTURE(WgmmaBackward, "wgmma backward: dq that the first keys store") {
  codegen::Arch few_sms = codegen::find_arch("sm_90a");
  few_sms.sm_count = 3;
  ProblemSpec spec = kSmall;
  spec.seqlen_q = 300;
  spec.seqlen_kv = 400;
  for (const int block_q : {64, 128}) {
    expect_right(spec, store_backward(block_q));
    expect_right(spec, store_backward(block_q), few_sms);
    spec.causal = true;
    for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
      spec.diagonal = diagonal;  // some tiles of queries have no keys, or begin behind the first
      expect_right(spec, store_backward(block_q), few_sms);
    }
    spec.causal = false;
    spec.window = {30, 20};
    expect_right(spec, store_backward(block_q), few_sms);
    spec.window = {-1, -1};
    spec.diagonal = Diagonal::kUnspecified;
  }
  spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
  spec.seqlens_q = {290, 33};
  spec.seqlens_kv = {390, 0};
  spec.bias = "bhqk";
  spec.want_dbias = true;
  expect_right(spec, store_backward(64), few_sms);
}

// On a device of few SMs, so that the sums of most planes are left to the kernel itself.
TEST_CASE_FIXTURE(WgmmaBackward,
                  "wgmma backward: sums that become zeros ahead of who adds to them") {
  codegen::Arch few_sms = codegen::find_arch("sm_90a");
  ProblemSpec spec = kSmall;
  spec.heads_q = 6;
  spec.heads_kv = 3;
  spec.head_dim = 72;
  for (const int sm_count : {1, 3}) {
    few_sms.sm_count = sm_count;
    expect_right(spec, wgmma_backward(64), few_sms);
    spec.causal = true;
    spec.diagonal = Diagonal::kBottomRight;
    expect_right(spec, wgmma_backward(64), few_sms);
    spec.deterministic = true;
    expect_right(spec, wgmma_backward(64), few_sms);
    spec.causal = spec.deterministic = false;
    spec.diagonal = Diagonal::kUnspecified;
  }
  spec.head_dim = 64;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {140, 33};
  spec.seqlens_kv = {150, 37};
  spec.seqlen_kv = 208;
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kBlocks;
  expect_right(spec, wgmma_backward(64), few_sms);
  spec.bias = "bhqk";
  spec.want_dbias = true;  // a thread block has one tile of keys
  expect_right(spec, wgmma_backward(64), few_sms);
}

// On a device of one SM, so that a thread block has several planes after another.
TEST_CASE_FIXTURE(WgmmaBackward,
                  "slow: wgmma backward: thread blocks that take all keys of a kv head") {
  codegen::Arch one_sm = codegen::find_arch("sm_90a");
  one_sm.sm_count = 1;
  ProblemSpec spec = kSmall;
  spec.deterministic = true;
  for (const auto& [seqlen_q, seqlen_kv] :
       {std::pair{64, 500}, {200, 300}, {600, 260}, {1, 129}, {70, 100}, {0, 64}, {64, 0}}) {
    spec.seqlen_q = seqlen_q;
    spec.seqlen_kv = seqlen_kv;
    for (const int block_q : {64, 128}) {
      for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
        spec.causal = true;
        spec.diagonal = diagonal;
        expect_right(spec, plane_backward(block_q), one_sm);
        spec.causal = false;
        spec.window = {90, 20};
        expect_right(spec, plane_backward(block_q), one_sm);
        spec.window = {-1, -1};
      }
      spec.diagonal = Diagonal::kUnspecified;
      expect_right(spec, plane_backward(block_q), one_sm);
    }
  }
  spec.seqlen_q = spec.seqlen_kv = 300;
  for (const auto& [head_dim, head_dim_v] : {std::pair{128, 128}, {40, 96}, {96, 40}}) {
    spec.head_dim = head_dim;
    spec.head_dim_v = head_dim_v;
    expect_right(spec, plane_backward(64), one_sm);
  }
}

TEST_CASE_FIXTURE(WgmmaBackward,
                  "slow: wgmma backward: whole planes with lengths, masks and biases") {
  codegen::Arch one_sm = codegen::find_arch("sm_90a");
  one_sm.sm_count = 1;
  ProblemSpec spec = kSmall;
  spec.seqlen_q = 300;
  spec.seqlen_kv = 400;
  spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
  spec.seqlens_q = {290, 33};
  spec.seqlens_kv = {390, 150};
  spec.want_dlse = true;
  expect_right(spec, plane_backward(64), one_sm);
  for (const MaskKind kind : {MaskKind::kBlocks, MaskKind::kDeadRows, MaskKind::kRandom}) {
    spec.mask = "b1qk";
    spec.mask_kind = kind;
    expect_right(spec, plane_backward(64), one_sm);
  }
  spec.mask = "b11k";
  spec.want_dbias = true;
  for (const char* bias : {"1hqk", "b1qk", "b11k"}) {
    spec.bias = bias;
    expect_right(spec, plane_backward(64), one_sm);
  }
  spec.dtype = DType::kFloat16;
  expect_right(spec, plane_backward(64), one_sm);
}

TEST_CASE_FIXTURE(WgmmaBackward, "slow: wgmma backward: masks over keys, with biases and without") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 208;
  spec.poison_dropped_keys = true;
  spec.mask_kind = MaskKind::kScattered;
  for (const char* mask : {"b11k", "1h11", "bh1k"}) {
    spec.mask = mask;
    for (const char* bias : {"", "b11k", "bhqk"}) {
      spec.bias = bias;
      expect_right(spec);
    }
  }
  spec.poison_dropped_keys = false;
  for (const char* mask : {"b1qk", "bhqk", "11qk"}) {
    spec.mask = mask;
    for (const char* bias : {"", "b11k", "bhqk"}) {
      spec.bias = bias;
      expect_right(spec);
    }
  }
  spec.bias = "";
  for (const MaskKind kind : {MaskKind::kRandom, MaskKind::kBlocks, MaskKind::kDeadRows}) {
    spec.mask_kind = kind;
    expect_right(spec);
  }
  spec.mask = "b11k";
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  for (const MaskKind kind : {MaskKind::kRandom, MaskKind::kSuffix, MaskKind::kAllFalse}) {
    spec.mask_kind = kind;
    expect_right(spec, wgmma_backward(128));
  }
}

// The gradient of a row's only score is its dlse, of which a softcap leaves 1 / cosh(x)^2: here of
// every size from 1 down to 0, some of which are above 2^-126 where exp(-2 |x|) is below.
TEST_CASE_FIXTURE(WgmmaBackward, "backward on each path: slopes of a softcap down to 2^-126") {
  ProblemSpec spec{.heads_q = 4, .seqlen_q = 500, .seqlen_kv = 1, .head_dim = 64};
  spec.scale = 30;
  spec.softcap = 8;
  spec.backward = spec.want_dlse = true;
  expect_right(spec, "{}");
  expect_right(spec);
  spec.dtype = DType::kFloat16;
  expect_right(spec, "{}");
  expect_right(spec);
}

TEST_CASE_FIXTURE(WgmmaBackward,
                  "slow: wgmma backward: a softcap, beside masks, biases and slopes") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 208;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    spec.dtype = dtype;
    for (const float softcap : {0.05f, 2.0f, 1e4f}) {
      spec.softcap = softcap;
      expect_right(spec);
      expect_right(spec, wgmma_backward(128));
    }
  }
  spec.softcap = 0.5f;
  spec.deterministic = true;
  expect_right(spec);
  expect_right(spec, plane_backward(64));
  spec.deterministic = false;
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  spec.alibi = "h";
  expect_right(spec);
  spec.mask = "b1qk";
  spec.bias = "bhqk";
  expect_right(spec);
  spec.mask = spec.bias = "b11k";
  spec.want_dbias = spec.poison_dropped_keys = true;
  expect_right(spec);
}

TEST_CASE_FIXTURE(WgmmaBackward, "wgmma backward: tensors in any order of memory") {
  ProblemSpec spec = kSmall;
  spec.memory.layout = instance::Layout::kBshd;
  expect_right(spec);
  spec.memory.v_differs = true;
  expect_right(spec);
  spec.memory.expand_dout = true;
  expect_right(spec);
}

}  // namespace
}  // namespace attnjit::executor_test::wgmma_backward_test
