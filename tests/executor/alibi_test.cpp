// Slopes of ALiBi on the paths of both passes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "bench.hpp"
#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test {
namespace {

using instance::ProblemSpec;
using tensor::MaskKind;

const std::string kWgmma =
    R"({"path": "wgmma", "block_q": 128, "block_kv": 64, "num_stages": 2, "pack_gqa": false})";
const std::string kPackedWgmma =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 64, "num_stages": 2, "pack_gqa": true})";
const std::string kMaxFree = R"({"softmax": "max_free"})";
const std::string kRunningMax = R"({"softmax": "running_max"})";

class Alibi {
 public:
  void forward(const ProblemSpec& spec,
               const std::vector<std::string>& configs = {kMaxFree, kRunningMax, kWgmma}) {
    for (const std::string& config : configs) {
      if (bench_.leaves_out()) continue;
      CAPTURE(instance::describe(spec));
      CAPTURE(config);
      CHECK(bench_.forward(spec, codegen::find_arch("sm_90a"), config) == "");
    }
  }
  void backward(ProblemSpec spec,
                const std::vector<std::string>& configs = {"{}", wgmma_backward(64)}) {
    spec.backward = true;
    for (const std::string& config : configs) {
      if (bench_.leaves_out()) continue;
      CAPTURE(instance::describe(spec));
      CAPTURE(config);
      CHECK(bench_.backward(spec, codegen::find_arch("sm_90a"), config) == "");
    }
  }
  void both(const ProblemSpec& spec) {
    forward(spec);
    backward(spec);
  }

 private:
  Bench bench_;
};

const ProblemSpec kSmall = {.batch = 2,
                            .heads_q = 4,
                            .heads_kv = 2,
                            .seqlen_q = 70,
                            .seqlen_kv = 150,
                            .head_dim = 64,
                            .alibi = "bh"};

TEST_CASE_FIXTURE(Alibi, "slow: alibi: the diagonal at either end, and moved off the tensors") {
  ProblemSpec spec = kSmall;
  for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
    spec.diagonal = diagonal;
    for (const std::int64_t offset : {0, 40, -300, 1 << 29}) {
      spec.diagonal_offset = offset;
      // As far away as that, slopes of models leave weights of one key alone.
      spec.slopes = offset == 1 << 29 ? std::vector<float>{1e-7f, -1e-8f} : std::vector<float>{};
      both(spec);
    }
  }
}

TEST_CASE_FIXTURE(Alibi, "alibi: a square problem needs no diagonal") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = spec.seqlen_q;
  spec.alibi = "h";
  both(spec);
}

ProblemSpec of_any_slopes(DType dtype, bool causal) {
  ProblemSpec spec = kSmall;
  spec.diagonal = Diagonal::kBottomRight;
  spec.slopes = {0.0f, -0.25f, 3.0f, -40.0f, 60.0f, 1e33f, -0.0f, 1e-6f};
  spec.dtype = dtype;
  spec.causal = causal;
  return spec;
}

TEST_CASE_FIXTURE(Alibi, "alibi: slopes of 0, negative ones, and steep ones") {
  both(of_any_slopes(DType::kBFloat16, true));
  both(of_any_slopes(DType::kFloat16, false));
}
TEST_CASE_FIXTURE(Alibi, "slow: alibi: slopes of 0, negative ones, and steep ones, the other way") {
  both(of_any_slopes(DType::kBFloat16, false));
  both(of_any_slopes(DType::kFloat16, true));
}

// Keys past the diagonal are dropped there: their slopes enter the exponents, unless they are
// steep.
TEST_CASE_FIXTURE(Alibi, "slow: alibi: tiles before the diagonal, one after another") {
  ProblemSpec spec = kSmall;
  spec.causal = true;
  spec.seqlen_kv = 400;
  for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
    spec.diagonal = diagonal;
    for (const std::int64_t offset : {-20, 0, 200}) {
      spec.diagonal_offset = offset;
      for (const std::vector<float>& slopes :
           {std::vector<float>{}, {-0.5f, 0.0f, 30.0f, 1e-3f, 44.0f, 45.0f, 1e33f, -1e10f}}) {
        spec.slopes = slopes;
        forward(spec);
      }
    }
  }
  spec.packed = true;
  spec.batch = 3;
  spec.seqlen_q = spec.seqlen_kv = 400;
  spec.cu_seqlens_q = spec.cu_seqlens_kv = {0, 90, 91, 390};
  both(spec);
}

TEST_CASE_FIXTURE(Alibi, "alibi: rows whose keys all count as -inf are dead") {
  ProblemSpec spec = kSmall;
  spec.diagonal = Diagonal::kTopLeft;
  spec.diagonal_offset = -300;
  spec.slopes = {0.1f, 1e36f};
  forward(spec);
  spec.want_dlse = true;
  backward(spec);
}

TEST_CASE_FIXTURE(Alibi, "alibi: pack_gqa and split keys") {
  ProblemSpec spec = kSmall;
  spec.seqlen_q = 3;
  spec.seqlen_kv = 900;
  spec.heads_q = 8;
  spec.diagonal = Diagonal::kBottomRight;
  for (const bool causal : {true, false}) {
    spec.causal = causal;
    forward(spec, {R"({"pack_gqa": true, "block_q": 16, "block_kv": 32, "num_warps": 1})",
                   R"({"pack_gqa": false, "block_q": 16, "block_kv": 32, "num_warps": 1})",
                   kPackedWgmma});
  }
}

TEST_CASE_FIXTURE(Alibi, "slow: alibi: beside all that else enters the scores") {
  ProblemSpec spec = kSmall;
  spec.seqlen_kv = 160;  // whole vectors of 16 bytes of a mask
  spec.diagonal = Diagonal::kBottomRight;
  spec.window = {60, 5};
  spec.diagonal_offset = -7;
  spec.bias = "1hqk";
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kDeadRows;
  spec.use_sink = true;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.poison_dropped_keys = true;
  both(spec);
  spec.softcap = 2.0f;
  spec.scale = -0.3f;
  forward(spec);
  spec.want_dlse = spec.want_dbias = spec.want_dsink = true;
  backward(spec, {"{}"});
}

TEST_CASE_FIXTURE(Alibi, "slow: alibi: heads of 256 columns") {
  ProblemSpec spec = kSmall;
  spec.head_dim = 256;
  spec.seqlen_kv = 90;
  spec.diagonal = Diagonal::kTopLeft;
  forward(spec);
  backward(spec, {"{}", wide_backward()});
}

TEST_CASE_FIXTURE(Mutations, "caught: slopes of another head, and distances from elsewhere") {
  const std::string alibi = "attnjit/score/alibi.cuh";
  ProblemSpec spec = kSmall;
  spec.seqlen_q = 3;
  spec.heads_kv = 1;
  spec.diagonal = Diagonal::kBottomRight;
  const std::string packed = R"({"pack_gqa": true, "block_q": 16, "block_kv": 32, "num_warps": 1})";
  expect_report(
      {alibi, "slope_of(block, owner_of_line(block, line).head)", "slope_of(block, block.head)"},
      {spec, packed}, {"lse of 3 rows fails"});
  expect_report({alibi, "origin - block.bottom_right()", "origin"}, {spec, packed},
                {"lse of 3 rows fails"});
  expect_report({alibi, "block.batch * params.batch_stride +", ""}, {spec, packed},
                {"lse of 3 rows fails"});
}

}  // namespace
}  // namespace attnjit::executor_test
