// Packed sequences: lengths that tiles do not expect, what masks and biases lack, each way to a
// dbias, and numbers that the caller must not give.
#include <doctest/doctest.h>

#include <string>

#include "bench.hpp"
#include "packed_problems.hpp"
#include "tile_configs.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::packed_sequences_test {
namespace {

using instance::ProblemSpec;

class PackedSequences {
 public:
  void expect_right(const ProblemSpec& spec, const std::string& config = "{}", int sm_count = 0) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    codegen::Arch arch = codegen::find_arch("sm_90a");
    if (sm_count > 0) arch.sm_count = sm_count;
    CHECK((spec.backward ? bench_.backward(spec, arch, config)
                         : bench_.forward(spec, arch, config)) == "");
  }
  void expect_all_right(const ProblemSpec& spec) {
    expect_right(spec);
    expect_right(gradients(spec));
    expect_right(gradients(spec, true));
  }
  std::string run(const ProblemSpec& spec, const std::string& config = "{}") {
    const codegen::Arch& arch = codegen::find_arch("sm_90a");
    return spec.backward ? bench_.backward(spec, arch, config) : bench_.forward(spec, arch, config);
  }

 private:
  Bench bench_;
};

TEST_CASE_FIXTURE(PackedSequences, "packed sequences: empty ones, short ones, rows of none") {
  expect_all_right(ragged());
  ProblemSpec spec = ragged();
  spec.use_sink = true;
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  expect_all_right(spec);
}

TEST_CASE_FIXTURE(PackedSequences, "packed sequences: no rows, no keys, none of both") {
  expect_all_right(packed({0, 40, 90}, {0, 0, 0}, 90, 50));
  expect_all_right(packed({0, 0, 0, 0}, {0, 0, 0, 0}, 70, 40));
  expect_all_right(packed({0, 0, 0}, {0, 20, 20}, 65, 20));
}

TEST_CASE_FIXTURE(PackedSequences, "slow: packed sequences: a diagonal of their own") {
  ProblemSpec spec = ragged();
  spec.causal = true;
  for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
    spec.diagonal = diagonal;
    expect_all_right(spec);
  }
  spec.causal = false;
  spec.window = {20, 9};
  spec.diagonal_offset = -7;
  spec.softcap = 2.0f;
  expect_all_right(spec);
}

TEST_CASE_FIXTURE(PackedSequences, "slow: packed sequences: 1100 short ones") {
  expect_right(short_sequences(1100));
  expect_right(gradients(short_sequences(1100)));
}

// The path of Hopper: a tile of keys may begin anywhere, end in those of another sequence, and rows
// of a tile may be another's. Two SMs walk over blocks without rows.
TEST_CASE_FIXTURE(PackedSequences, "packed sequences: the path of Hopper") {
  ProblemSpec spec = ragged();
  spec.head_dim = 64;
  expect_right(spec, wgmma(64, 64));
  expect_right(spec, wgmma(192, 96), 2);
  spec.seqlen_kv = 322;  // two keys past the last four
  expect_right(spec, wgmma(64, 64), 3);
  spec.head_dim_v = 128;
  spec.use_sink = spec.use_seqlens_q = spec.use_seqlens_kv = spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  for (const bool packs : {false, true}) expect_right(spec, wgmma(128, 128, packs), 1);
  spec = with(ragged(), "b1qk", "bgqk");
  spec.operand_keys = 96;
  spec.operand_queries = 90;
  expect_right(spec, wgmma(128, 64), 3);
  expect_right(spec, wgmma(64, 32, true));
  expect_right(with(ragged(), "b11k", "bhq1"), wgmma(64, 32), 1);
  expect_right(packed({0, 0, 0, 70}, {0, 0, 5, 5}, 300, 41), wgmma(64, 32), 1);
  expect_right(packed({0, 40, 90}, {0, 0, 0}, 90, 50), wgmma(64, 32));
}

TEST_CASE_FIXTURE(PackedSequences, "packed sequences: pack_gqa as well") {
  ProblemSpec spec = with(ragged(), "b1qk", "bgqk");
  const std::string config = R"({"pack_gqa": true, "block_q": 32, "num_warps": 2})";
  expect_right(spec, config);
  spec = with(ragged(), "1g1t", "1h1t");
  expect_right(spec, config);
}

TEST_CASE_FIXTURE(PackedSequences, "slow: packed sequences: masks and biases by sequence") {
  for (const auto& [mask, bias] : {std::pair{"bhqk", "bhqk"},
                                   {"1g1t", "1h1t"},
                                   {"bhq1", "1gqk"},
                                   {"b11k", "bhq1"},
                                   {"s1qk/3", "shqk/2"},
                                   {"", "1111"}}) {
    expect_all_right(with(ragged(), mask, bias));
  }
}

TEST_CASE_FIXTURE(PackedSequences,
                  "slow: packed sequences: masks and biases of fewer rows and keys") {
  ProblemSpec spec = with(ragged(), "b1qk", "1hqk");
  spec.use_sink = spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  spec.operand_queries = 70;
  spec.operand_keys = 64;
  expect_all_right(spec);
  spec.operand_queries = spec.operand_keys = 0;
  expect_all_right(spec);
}

TEST_CASE_FIXTURE(PackedSequences, "packed sequences: sums of dbias in fragments") {
  ProblemSpec spec = with(ragged(), "", "1hqk");
  spec.operand_queries = 144;
  spec.operand_keys = 96;
  expect_right(gradients(spec));
}

// The bytes outside of tensors are checked by every run; what rows hold then nobody promises.
TEST_CASE_FIXTURE(PackedSequences, "packed sequences: numbers that fall or leave the tensor") {
  for (const Begins& begins : kFaulty) {
    for (const bool backward : {false, true}) {
      ProblemSpec spec = packed(begins, begins, 90, 90);
      spec.poison_dropped_keys = false;
      const std::string text = run(backward ? gradients(spec) : spec);
      CAPTURE(text);
      CHECK(!leaves_tensors(text));
    }
  }
}

// Rows or keys 20 to 59 belong to the first sequence and to the last.
TEST_CASE_FIXTURE(PackedSequences, "packed sequences: rows that two of them write are reported") {
  const Begins rising = {0, 40, 60, 90};
  const Begins falling = {0, 60, 20, 90};
  ProblemSpec rows = packed(falling, rising, 90, 90);
  ProblemSpec keys = packed(rising, falling, 90, 90);
  rows.poison_dropped_keys = keys.poison_dropped_keys = false;
  const auto expect_report = [&](const ProblemSpec& spec, const std::string& config,
                                 const std::string& step, const std::string& tensor) {
    CAPTURE(config);
    const std::string text = run(spec, config);
    CAPTURE(text);
    CHECK(text.starts_with(step + ", block "));
    CHECK(text.find(" of " + tensor + " [1, ") != std::string::npos);
    CHECK(text.ends_with(", which this kernel has written already"));
  };
  for (const std::string& config : {std::string("{}"), wgmma(64, 64)}) {
    expect_report(rows, config, "attn_fwd", "lse");
  }
  for (const std::string& config : {std::string("{}"), wgmma_backward(64)}) {
    expect_report(gradients(rows), config, "fragment_sum", "dq");
    expect_report(gradients(keys), config, "attn_bwd_dkv", "dk");
  }
}

}  // namespace
}  // namespace attnjit::executor_test::packed_sequences_test
