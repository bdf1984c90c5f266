// Softcaps on the paths of both passes: scores up to the cap, whose tanh is a polynomial, and
// beyond.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "bench.hpp"
#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::softcap_test {
namespace {

using instance::ProblemSpec;

const std::string kMma = R"({"softmax": "max_free"})";
const std::string kWgmma =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 32, "num_stages": 2, "pack_gqa": false})";
const std::string kSoftcap = "attnjit/score/softcap.cuh";

// Scores of unit variance, by the default scale.
const ProblemSpec kSmall = {
    .heads_q = 2, .heads_kv = 1, .seqlen_q = 70, .seqlen_kv = 150, .head_dim = 64};

// All scores below the cap; some of a tile beyond it; nearly all, up to where tanh is flat. What
// powers of the ratio do to the range of fp32 is the host's to avoid. Caps take the scales by
// turns.
void check_caps(bool every_scale) {
  Bench bench;
  ProblemSpec spec = kSmall;
  constexpr float kScales[] = {0.125f, -2.0f, 1e-6f};
  int turn = 0;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const float softcap : {50.0f, 3.0f, 0.2f, 1e-3f, 1e4f, 1e30f}) {
      spec.dtype = dtype;
      spec.softcap = softcap;
      const int own = (turn++ + (dtype == DType::kFloat16 ? 1 : 0)) % 3;
      for (int each = 0; each < 3; ++each) {
        if (!every_scale && (each != own || bench.leaves_out())) continue;
        const float scale = kScales[each];
        spec.scale = scale;
        CAPTURE(instance::describe(spec));
        spec.backward = false;
        for (const std::string& config : {kMma, kWgmma}) {
          CAPTURE(config);
          CHECK(bench.forward(spec, codegen::find_arch("sm_90a"), config) == "");
        }
        spec.backward = true;
        const std::string path = scale > 0.0f ? wgmma_backward(64) : "{}";
        CHECK(bench.backward(spec, codegen::find_arch("sm_90a"), path) == "");
      }
    }
  }
}
TEST_CASE("softcap: scores on both sides of the cap") { check_caps(false); }
TEST_CASE("slow: softcap: scores on both sides of the cap, each with every scale") {
  check_caps(true);
}

TEST_CASE_FIXTURE(Mutations, "caught: a softcap's polynomial for scores beyond the cap") {
  ProblemSpec spec = kSmall;
  spec.softcap = 1.0f;
  expect_report({kSoftcap, "return highest <= params.most;", "return true;"}, {spec, kWgmma},
                {"rows fail"});
  ProblemSpec near = kSmall;
  near.softcap = 50.0f;
  expect_report({kSoftcap, "return score * near_ratio(score);", "return score;"}, {near, kWgmma},
                {"rows fail"});
  spec.backward = true;
  expect_report({kSoftcap, "ptx::warp_all(highest <= params.most)", "true"},
                {spec, wgmma_backward(64)}, {"dq:"});
}

}  // namespace
}  // namespace attnjit::executor_test::softcap_test
