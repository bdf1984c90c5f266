// Masks and biases whose planes over the batch are shared in groups: each way in which kernels read
// them and add up a dbias, on both paths.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "bench.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::batch_groups_test {
namespace {

using instance::ProblemSpec;

const std::string kWgmma = R"({"path": "wgmma", "block_q": 64, "block_kv": 64, "num_stages": 2})";

// Three groups of two, and two of three: neither number of planes is the other's group.
const ProblemSpec kSmall = {
    .batch = 6, .heads_q = 4, .heads_kv = 2, .seqlen_q = 70, .seqlen_kv = 144, .head_dim = 64};

class BatchGroups {
 public:
  void expect_right(const ProblemSpec& spec, const std::string& config = "{}") {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    const codegen::Arch& arch = codegen::find_arch("sm_90a");
    CHECK((spec.backward ? bench_.backward(spec, arch, config)
                         : bench_.forward(spec, arch, config)) == "");
  }

 private:
  Bench bench_;
};

ProblemSpec with(const char* mask, const char* bias) {
  ProblemSpec spec = kSmall;
  spec.mask = mask;
  spec.bias = bias;
  return spec;
}

ProblemSpec gradients(ProblemSpec spec, bool deterministic = false) {
  spec.backward = spec.want_dlse = true;
  spec.want_dbias = !spec.bias.empty();
  spec.deterministic = deterministic;
  return spec;
}

TEST_CASE_FIXTURE(BatchGroups, "batch groups: by key, by pair and by query") {
  for (const auto& [mask, bias] :
       {std::pair{"sh1k/3", "sgqk/3"}, {"sgqk/2", "shq1/2"}, {"shq1/3", "sh1k/2"}}) {
    const ProblemSpec spec = with(mask, bias);
    expect_right(spec);
    expect_right(spec, kWgmma);
  }
}

TEST_CASE_FIXTURE(BatchGroups, "batch groups: pack_gqa, split keys") {
  ProblemSpec spec = with("sgqk/3", "shqk/2");
  spec.seqlen_q = 5;
  spec.seqlen_kv = 600;
  expect_right(spec, R"({"pack_gqa": true, "block_q": 16, "block_kv": 32, "num_warps": 1})");
}

// Planes of four elements that come twice, of two neighbours each, and two by two.
ProblemSpec repeating(const char* mask, const char* bias) {
  ProblemSpec spec = with(mask, bias);
  spec.batch = 8;
  return spec;
}

TEST_CASE_FIXTURE(BatchGroups, "batch groups: planes that repeat") {
  expect_right(repeating("p1qk/4x1", "pgqk/2x2"));
  expect_right(repeating("ph1k/4x1x2", "p1qk/2x1"), kWgmma);
}

TEST_CASE_FIXTURE(BatchGroups, "slow: batch groups: each way to read planes that repeat") {
  for (const auto& [mask, bias] : {std::pair{"p1qk/4x1", "ph1k/2x2"},
                                   {"phq1/4x1", "phq1/2x1"},
                                   {"pg1k/4x1x2", "pgqk/4x1x2"}}) {
    ProblemSpec spec = repeating(mask, bias);
    expect_right(spec);
    expect_right(spec, kWgmma);
    spec.prepare_mask = instance::can_prepare_mask(spec);
    expect_right(spec);
    spec.packed = true;
    expect_right(spec);
  }
  ProblemSpec decode = repeating("p11k/4x1", "p11k/4x1");  // read in place
  decode.seqlen_q = 1;
  expect_right(decode);
}

TEST_CASE_FIXTURE(BatchGroups, "batch groups: gradients of planes that repeat") {
  ProblemSpec small = repeating("phq1/4x1", "pgqk/2x2");
  small.seqlen_q = 33;
  small.seqlen_kv = 48;
  expect_right(gradients(small, true));  // dbias by a kernel of its own
  small.mask = "p1qk/4x1x2";
  expect_right(gradients(small), wgmma_backward(64));
}

TEST_CASE_FIXTURE(BatchGroups, "slow: batch groups: all gradients of planes that repeat") {
  const std::string wgmma = wgmma_backward(64);
  for (const auto& [mask, bias] : {std::pair{"p1qk/4x1", "pgqk/4x1x2"},
                                   {"pg1k/2x2", "ph1k/2x2"},
                                   {"ph1k/4x1x2", "p1q1/4x1"},
                                   {"p1q1/4x1", "phqk/4x1"},  // few planes to one
                                   {"b1qk", "p111/2x2"}}) {
    ProblemSpec spec = gradients(repeating(mask, bias));
    expect_right(spec);
    if (spec.bias.find("k/") != std::string::npos) expect_right(spec, wgmma);
    spec.prepare_mask = instance::can_prepare_mask(spec);
    spec.deterministic = true;
    expect_right(spec);
    spec.packed = true;
    expect_right(spec);
  }
  const ProblemSpec few = gradients(repeating("", "phqk/4x1"));
  for (const char* method : {"add", "per_plane"}) expect_right(few, with_dbias(wgmma, method));
}

TEST_CASE_FIXTURE(BatchGroups, "slow: batch groups: gradients of path mma") {
  for (const char* bias : {"sh1k/2", "sgqk/3", "s1q1/2"}) {
    expect_right(gradients(with("shqk/2", bias)));
  }
  expect_right(gradients(with("s11k/3", "sgqk/3"), true));
}

TEST_CASE_FIXTURE(BatchGroups, "slow: batch groups: gradients of path wgmma") {
  const std::string config = wgmma_backward(64);
  for (const char* bias : {"sh1k/2", "sgqk/3"}) {
    for (const char* mask : {"s11k/2", "shqk/3"}) expect_right(gradients(with(mask, bias)), config);
  }
}

TEST_CASE_FIXTURE(BatchGroups, "slow: batch groups: beside lengths, a band and dropped NaN") {
  ProblemSpec spec = with("s1qk/3", "shqk/2");
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  spec.poison_dropped_keys = true;
  expect_right(spec);
  expect_right(spec, kWgmma);
  expect_right(gradients(spec));
  expect_right(gradients(spec), wgmma_backward(64));
}

}  // namespace
}  // namespace attnjit::executor_test::batch_groups_test
