// The Hopper forward by name: its tiles, the edges of its tensor maps, its softmax, and what it
// promises of NaN.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "bench.hpp"

namespace attnjit::executor_test::wgmma_kernels_test {
namespace {

using instance::ProblemSpec;
using tensor::BiasKind;
using tensor::MaskKind;

// A tile of the path; block_q rows are those of block_q / 64 warpgroups.
std::string tile(int block_q, int block_kv, int num_stages = 2, bool pack_gqa = false) {
  return fmt::format(
      R"({{"path": "wgmma", "block_q": {}, "block_kv": {}, "num_stages": {},
          "pack_gqa": {}}})",
      block_q, block_kv, num_stages, pack_gqa);
}

class WgmmaKernels {
 public:
  void expect_right(const ProblemSpec& spec, const std::string& config = tile(128, 64),
                    const codegen::Arch& arch = codegen::find_arch("sm_90a")) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    CHECK(bench_.forward(spec, arch, config) == "");
  }

 private:
  Bench bench_;
};

const ProblemSpec kSmall = {
    .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 150, .seqlen_kv = 200, .head_dim = 64};

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: one, two and three warpgroups, rings of two to four") {
  for (const std::string& config :
       {tile(64, 32, 4), tile(64, 128), tile(128, 96, 3), tile(192, 64), tile(192, 96)}) {
    expect_right(kSmall, config);
  }
}

TEST_CASE_FIXTURE(WgmmaKernels,
                  "wgmma: rows and keys around the edges of tiles, and of fours of keys") {
  for (const int seqlen : {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129, 191, 193}) {
    ProblemSpec spec = kSmall;
    spec.seqlen_q = spec.seqlen_kv = seqlen;
    expect_right(spec);
  }
  ProblemSpec none = kSmall;
  none.seqlen_kv = 0;
  expect_right(none);
}

TEST_CASE_FIXTURE(WgmmaKernels,
                  "wgmma: widths that are no slabs, and wide ones without a stage for out") {
  const std::pair<int, int> dims[] = {{8, 8}, {40, 96}, {96, 40}, {192, 128}, {256, 256}};
  for (const auto& [head_dim, head_dim_v] : dims) {
    ProblemSpec spec = kSmall;
    spec.head_dim = head_dim;
    spec.head_dim_v = head_dim_v;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: a thread block that has several blocks of rows") {
  codegen::Arch one_sm = codegen::find_arch("sm_90a");
  one_sm.sm_count = 1;
  ProblemSpec spec = {
      .batch = 2, .heads_q = 2, .heads_kv = 2, .seqlen_q = 200, .seqlen_kv = 330, .head_dim = 64};
  spec.use_seqlens_kv = true;
  expect_right(spec, tile(64, 32), one_sm);
  spec.seqlen_kv = 1100;  // 35 tiles, of which the walk looks at 32 at a time
  for (const char* mask : {"bhqk", "1hqk", "b11k"}) {
    for (const MaskKind kind : {MaskKind::kBlocks, MaskKind::kSuffix, MaskKind::kBand}) {
      spec.mask = mask;
      spec.mask_kind = kind;
      spec.mask_density = 0.3;
      expect_right(spec, tile(64, 32), one_sm);
    }
  }
}

// Rings of three parts, and of the one of a single warpgroup; of two and four where O has more
// columns than Q. Blocks of rows have one tile to four.
TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: rings of parts of Q, and several blocks of rows") {
  codegen::Arch one_sm = codegen::find_arch("sm_90a");
  one_sm.sm_count = 1;
  ProblemSpec spec = {
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 200, .seqlen_kv = 200, .head_dim = 256};
  expect_right(spec, tile(128, 64), one_sm);
  expect_right(spec, tile(64, 64, 3), one_sm);
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec, tile(128, 64), one_sm);
  expect_right(spec, tile(128, 32, 4), one_sm);
  spec.dtype = DType::kFloat16;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  expect_right(spec, tile(128, 64), one_sm);
  spec.head_dim = 192;
  expect_right(spec, tile(128, 96), one_sm);
  spec.head_dim_v = 256;
  expect_right(spec, tile(128, 64, 3), one_sm);
  spec.head_dim = 128;
  expect_right(spec, tile(128, 64, 3), one_sm);
  ProblemSpec one_tile = kSmall;
  one_tile.head_dim = 256;
  one_tile.seqlen_kv = 40;
  expect_right(one_tile, tile(128, 64), one_sm);
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: split keys are added up by the combine step") {
  for (const int head_dim : {64, 256}) {
    ProblemSpec spec = {.seqlen_q = 70, .seqlen_kv = 1500, .head_dim = head_dim};
    spec.causal = true;
    spec.diagonal = Diagonal::kTopLeft;  // most splits have no keys
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: pack_gqa, of one, two and many queries") {
  ProblemSpec spec = {
      .batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 1, .seqlen_kv = 200, .head_dim = 64};
  for (const int seqlen_q : {1, 2, 16, 33, 50}) {
    spec.seqlen_q = seqlen_q;
    expect_right(spec, tile(64, 64, 3, true));
    expect_right(spec, tile(128, 64, 2, true));
  }
  expect_right(spec, tile(192, 64, 2, true));
  spec.heads_q = 128;
  spec.seqlen_q = 3;
  expect_right(spec, tile(64, 32, 2, true));
}

TEST_CASE_FIXTURE(WgmmaKernels, "slow: wgmma: pack_gqa and every feature") {
  const std::string config = tile(64, 64, 2, true);
  ProblemSpec spec = {
      .batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 37, .seqlen_kv = 200, .head_dim = 64};
  spec.want_lse = false;
  for (const char* mask : {"bgqk", "b11k", "bhq1"}) {
    for (const char* bias : {"1hqk", "b11k", "bhq1"}) {
      spec.mask = mask;
      spec.bias = bias;
      expect_right(spec, config);
    }
  }
  spec.mask.clear();
  spec.bias.clear();
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {20, 37};
  spec.seqlens_kv = {150, 90};
  expect_right(spec, config);
  spec.memory.layout = instance::Layout::kBshd;
  expect_right(spec, config);
  ProblemSpec split = {.heads_q = 4, .heads_kv = 1, .seqlen_q = 5, .seqlen_kv = 1500};
  expect_right(split, config);
  split.head_dim = split.head_dim_v = 256;
  expect_right(split, config);
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: bands to both sides, whose rows may have no keys") {
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

// In log2 units, the row's keys all at an offset from the reference that rows begin with: up to 433
// below it, and one key 14,427 above.
TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: scores that leave the range of the softmax's reference") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ProblemSpec spec = kSmall;
    spec.dtype = dtype;
    spec.bias = "11qk";
    for (const BiasKind kind : {BiasKind::kHugeLogit, BiasKind::kVeryNegative, BiasKind::kGraded,
                                BiasKind::kMinusInfinity, BiasKind::kLowest}) {
      spec.bias_kind = kind;
      expect_right(spec);
    }
    spec.bias.clear();
    for (const float scale : {1.0f, 4.0f, -4.0f, 1e-3f}) {
      spec.scale = scale;
      expect_right(spec);
    }
  }
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: a diagonal that moves") {
  ProblemSpec spec = kSmall;
  spec.diagonal = Diagonal::kBottomRight;
  spec.window = {70, 0};
  spec.poison_dropped_keys = true;
  for (const int offset : {-300, -60, 60, 300}) {
    spec.diagonal_offset = offset;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: sinks, also of rows without a live key") {
  ProblemSpec spec = kSmall;
  spec.heads_q = 4;
  spec.use_sink = true;
  spec.sinks = {0.5f, -std::numeric_limits<float>::infinity(), 80.0f, -1e30f};
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kDeadRows;
  spec.use_seqlens_q = true;
  expect_right(spec);
  expect_right(spec, tile(64, 64, 2, true));
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: capped scores") {
  ProblemSpec spec = kSmall;
  for (const float cap : {1e-3f, 0.5f, 1e4f}) {
    spec.softcap = cap;
    spec.bias = cap == 0.5f ? "11qk" : "";
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WgmmaKernels,
                  "wgmma: every kind of mask, by key, by pair and by query, also beside a bias") {
  ProblemSpec spec = kSmall;
  for (const char* pattern : {"b11k", "bhqk", "bhq1"}) {
    spec.mask = pattern;
    for (int kind = 0; kind <= static_cast<int>(MaskKind::kAllFalse); ++kind) {
      spec.mask_kind = static_cast<MaskKind>(kind);
      expect_right(spec);
    }
  }
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kRandom;
  for (const char* pattern : {"1h1k", "bhqk", "bhq1"}) {
    spec.bias = pattern;
    expect_right(spec);
  }
}

// Twice as many registers as those of 16 bits, and elements that are read one by one.
TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: biases of fp32, and of rows that are not aligned") {
  ProblemSpec spec = kSmall;
  for (const std::optional<DType> dtype : {std::optional<DType>(), {DType::kFloat32}}) {
    spec.bias_dtype = dtype;
    for (const int seqlen_kv : {200, 203}) {
      spec.seqlen_kv = seqlen_kv;
      for (const char* pattern : {"b11k", "1hqk"}) {
        spec.bias = pattern;
        expect_right(spec);
      }
    }
  }
  spec.mask = "b1qk";
  spec.window = {60, 20};
  spec.diagonal = Diagonal::kTopLeft;
  expect_right(spec);
  spec = {.batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 20, .seqlen_kv = 203};
  spec.bias = "bhqk";
  spec.bias_dtype = DType::kFloat32;
  for (const int head_dim : {64, 128, 256}) {
    spec.head_dim = head_dim;
    expect_right(spec);
  }
}

TEST_CASE_FIXTURE(WgmmaKernels, "wgmma: NaN and Inf at keys that nobody reads stay there") {
  ProblemSpec spec = kSmall;
  spec.poison_dropped_keys = true;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {150, 37};
  expect_right(spec);
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  expect_right(spec);
  spec.causal = false;
  spec.use_seqlens_kv = false;
  spec.window = {10, -1};
  spec.diagonal = Diagonal::kBottomRight;
  expect_right(spec);
  spec.window = {};
  spec.diagonal = {};
  spec.mask = "b11k";
  for (const MaskKind kind : {MaskKind::kRandom, MaskKind::kScattered, MaskKind::kSuffix}) {
    spec.mask_kind = kind;
    expect_right(spec);
  }
}

}  // namespace
}  // namespace attnjit::executor_test::wgmma_kernels_test
