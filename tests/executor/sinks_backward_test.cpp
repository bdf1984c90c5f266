// Gradients of sinks that are none, far above and far below all scores, also where no key is left.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "bench.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::sinks_backward_test {
namespace {

using instance::ProblemSpec;
using tensor::MaskKind;

class SinksBackward {
 public:
  void expect_right(const ProblemSpec& spec, const std::string& config) {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    CHECK(bench_.backward(spec, codegen::find_arch("sm_90a"), config) == "");
  }
  /// Live rows and dead ones, then rows that all are dead: by a mask of pairs, by one of keys, and
  /// for want of keys.
  void expect_all_right(ProblemSpec spec, const std::string& config) {
    spec.mask = "b1qk";
    spec.mask_kind = MaskKind::kDeadRows;
    expect_right(spec, config);
    spec.mask_kind = MaskKind::kAllFalse;
    expect_right(spec, config);
    spec.mask = "b11k";
    expect_right(spec, config);
    spec.mask.clear();
    spec.seqlen_kv = 0;
    expect_right(spec, config);
  }

 private:
  Bench bench_;
};

ProblemSpec sinks(std::int64_t head_dim) {
  return {.batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seqlen_q = 70,
          .seqlen_kv = 80,
          .head_dim = head_dim,
          .use_sink = true,
          .sinks = {0.5f, -std::numeric_limits<float>::infinity(), 80.0f, -1e30f},
          .use_seqlens_q = true,
          .seqlens_q = {70, 33},
          .backward = true,
          .want_dlse = true,
          .want_dsink = true};
}

TEST_CASE_FIXTURE(SinksBackward, "sinks backward: none, 80 and -1e30, on the portable path") {
  expect_all_right(sinks(64), "{}");
}

TEST_CASE_FIXTURE(SinksBackward, "sinks backward: none, 80 and -1e30, on the path of Hopper") {
  expect_all_right(sinks(64), wgmma_backward(64));
}

TEST_CASE_FIXTURE(SinksBackward, "sinks backward: none, 80 and -1e30, of wide heads on Hopper") {
  expect_all_right(sinks(136), wide_backward());
}

}  // namespace
}  // namespace attnjit::executor_test::sinks_backward_test
