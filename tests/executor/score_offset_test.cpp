// fp16 scores of the Hopper forward far from the reference that its rows begin with.
#include <doctest/doctest.h>

#include "changed_templates.hpp"
#include "score_offsets.hpp"
#include "tile_configs.hpp"

namespace attnjit::executor_test {
namespace {

using test::MovedKeys;

// Runs scores that have moved. Empty, or what is wrong.
std::string run(Bench& bench, const char* bias, double offset, MovedKeys keys) {
  instance::HostProblem problem({.dtype = DType::kFloat16,
                                 .heads_q = 2,
                                 .seqlen_q = 70,
                                 .seqlen_kv = 200,
                                 .head_dim = 64,
                                 .bias = bias},
                                1);
  test::move_scores(problem, offset, keys);
  const std::string report =
      bench.run_forward(problem, codegen::find_arch("sm_90a"), wgmma(128, 64));
  return report.empty() ? test::judge_moved(problem, 1) : report;
}

TEST_CASE("wgmma: fp16 scores up to 60 log2 units from the reference, of all keys or of some") {
  Bench bench;
  for (const char* bias : {"", "1hqk"}) {
    test::for_each_move([&](double offset, MovedKeys keys) {
      CAPTURE(bias);
      CAPTURE(offset);
      CAPTURE(static_cast<int>(keys));
      CHECK(run(bench, bias, offset, keys) == "");
    });
  }
}

// The softmax with the bound below or above its first sums removed.
TEST_CASE("wgmma: fp16 scores need the bounds of a first sum to both sides") {
  const std::string softmax = "attnjit/forward/softmax.cuh";
  Bench below(changed_templates(softmax, "kWide ? 0x1p-60f : 0x1p4f", "0.0f"));
  CHECK(run(below, "", -30, MovedKeys::kAll).find("batch 0 head 0: max error") !=
        std::string::npos);
  CHECK(run(below, "", 30, MovedKeys::kAll) == "");
  Bench above(changed_templates(softmax, "0x1p60f : 0x1p14f", "0x1p60f : 0x1p60f"));
  CHECK(run(above, "", 30, MovedKeys::kAll).find("batch 0 head 0: max error") != std::string::npos);
  CHECK(run(above, "", -30, MovedKeys::kAll) == "");
}

}  // namespace
}  // namespace attnjit::executor_test
