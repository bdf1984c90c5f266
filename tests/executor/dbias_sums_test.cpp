// A dbias that sums batch elements or heads on the path of all architectures: added up in
// fragments, or by a kernel of its own whose thread blocks share out what they sum.
#include <doctest/doctest.h>

#include "bench.hpp"

namespace attnjit::executor_test::dbias_sums_test {
namespace {

using instance::ProblemSpec;

const ProblemSpec kSmall = {.batch = 7,
                            .heads_q = 4,
                            .heads_kv = 2,
                            .seqlen_q = 49,
                            .seqlen_kv = 77,
                            .head_dim = 32,
                            .bias = "1hqk",
                            .backward = true,
                            .want_dbias = true};

void expect_right(Bench& bench, const ProblemSpec& spec) {
  if (bench.leaves_out()) return;
  CAPTURE(instance::describe(spec));
  CHECK(bench.backward(spec, codegen::find_arch("sm_80"), "{}") == "");
}

TEST_CASE("sums of dbias: planes of any size, by thread blocks that share them out or add up") {
  Bench bench;
  for (const bool deterministic : {false, true}) {
    ProblemSpec spec = kSmall;
    spec.deterministic = deterministic;
    expect_right(bench, spec);
    spec.seqlen_q = 1;
    expect_right(bench, spec);
    spec.batch = 0;
    expect_right(bench, spec);
    spec.batch = 6;
    spec.seqlen_q = 75;
    spec.bias = "shqk/2";
    spec.dtype = DType::kFloat16;
    spec.bias_dtype = DType::kFloat32;
    spec.use_seqlens_q = spec.use_seqlens_kv = spec.poison_dropped_keys = true;
    spec.seqlens_q = {40, 0, 33, 75, 1, 60};  // a plane has rows that no batch element uses
    expect_right(bench, spec);
  }
}

// So few SMs that shares of the batch are several elements each, and the last one has fewer.
TEST_CASE("sums of dbias: shares of several batch elements") {
  Bench bench;
  codegen::Arch few_sms = codegen::find_arch("sm_80");
  few_sms.sm_count = 4;
  ProblemSpec spec = kSmall;
  spec.batch = 23;
  spec.heads_q = spec.heads_kv = 1;
  spec.seqlen_kv = 40;
  spec.deterministic = true;
  CHECK(bench.backward(spec, few_sms, "{}") == "");
}

TEST_CASE("slow: sums of dbias: every pattern") {
  Bench bench;
  for (const bool deterministic : {false, true}) {
    for (const char* bias : {"1hqk", "11qk", "b1qk", "1gqk"}) {
      ProblemSpec spec = kSmall;
      spec.deterministic = deterministic;
      spec.bias = bias;
      expect_right(bench, spec);
      spec.seqlen_q = spec.seqlen_kv = 64;
      spec.dbias_dtype = DType::kFloat32;
      expect_right(bench, spec);
    }
  }
}

}  // namespace
}  // namespace attnjit::executor_test::dbias_sums_test
