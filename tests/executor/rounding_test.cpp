// The rounding of Hopper kernels beside that of the formulas, over whole tensors, and scores of any
// size.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "bench.hpp"
#include "changed_templates.hpp"
#include "rounding_bounds.hpp"
#include "tensor/half.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::rounding_test {
namespace {

using instance::ProblemSpec;

const std::string kForward =
    R"({"path": "wgmma", "block_q": 128, "block_kv": 128, "num_stages": 2})";

// Errors beyond the bounds of docs/reference/semantics.md, or another fault.
std::string forward_faults(Bench& bench, const ProblemSpec& spec) {
  instance::HostProblem host(spec, 2);
  const std::string report = bench.run_forward(host, codegen::find_arch("sm_90a"), kForward);
  if (!report.empty()) return report;
  return test::beyond_bounds(spec, check::judge_forward(host, reference::Rows::every(), 2));
}
std::string backward_faults(Bench& bench, ProblemSpec spec, int block_q) {
  spec.backward = true;
  instance::HostProblem host(spec, 2);
  const std::string report =
      bench.run_backward(host, codegen::find_arch("sm_90a"), wgmma_backward(block_q));
  if (!report.empty()) return report;
  return test::beyond_bounds(spec, check::judge_backward(host, reference::Planes::every(), 2));
}

TEST_CASE("rounding: errors over a tensor are those of the rounded formulas") {
  Bench bench;
  for (const ProblemSpec& spec : test::rounding_problems(DType::kBFloat16, 64, 1, true)) {
    CAPTURE(instance::describe(spec));
    CHECK(forward_faults(bench, spec) == "");
    CHECK(backward_faults(bench, spec, 128) == "");
  }
}

TEST_CASE("slow: rounding: errors of both dtypes and widths") {
  Bench bench;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const bool causal : {false, true}) {
      for (const auto& [head_dim, heads, block_q] :
           {std::tuple{64, 2, 64}, std::tuple{64, 2, 128}, std::tuple{128, 1, 64}}) {
        for (const ProblemSpec& spec : test::rounding_problems(dtype, head_dim, heads, causal)) {
          CAPTURE(instance::describe(spec));
          CHECK(forward_faults(bench, spec) == "");
          CHECK(backward_faults(bench, spec, block_q) == "");
        }
      }
    }
  }
}

TEST_CASE("caught: a sum of probabilities that were not rounded") {
  Bench bench(changed_templates("attnjit/forward/wgmma/epilogue.cuh",
                                "state.divisor = out[0][kOutGroups][2 * h];", ""));
  for (const ProblemSpec& spec : test::rounding_problems(DType::kBFloat16, 64, 1, true)) {
    if (spec.query_stddev == 1 && !spec.dominant_key) continue;  // 1.15 is theirs, too
    CAPTURE(instance::describe(spec));
    CHECK(forward_faults(bench, spec).find("out: RMS error") != std::string::npos);
  }
}

TEST_CASE("caught: probabilities that are rounded before dP meets them") {
  Bench bench(changed_templates("attnjit/score/score_weights.cuh",
                                "return residuals[n].restore(pairs, e, zero);",
                                "return element_of<DType::kBFloat16>(pairs, e);"));
  for (const ProblemSpec& spec : test::rounding_problems(DType::kBFloat16, 64, 1, true)) {
    if (spec.dominant_key) continue;
    CAPTURE(instance::describe(spec));
    const std::string faults = backward_faults(bench, spec, 128);
    CHECK(faults.find("dq: RMS error") != std::string::npos);
    CHECK(faults.find("dk: RMS error") != std::string::npos);
  }
}

// Rows that keep a single key: out is its value bit for bit.
TEST_CASE("rounding: one key alone") {
  Bench bench;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const char* path : {"mma", "wgmma"}) {
      for (const double stddev : {1.0, 30.0}) {
        const ProblemSpec spec{.dtype = dtype,
                               .heads_q = 2,
                               .heads_kv = 2,
                               .seqlen_q = 40,
                               .seqlen_kv = 1,
                               .head_dim = 64,
                               .query_stddev = stddev};
        CAPTURE(instance::describe(spec));
        CAPTURE(path);
        instance::HostProblem host(spec, 1);
        const std::string config = path == std::string("mma") ? "{}" : kForward;
        REQUIRE(bench.run_forward(host, codegen::find_arch("sm_90a"), config) == "");
        const ForwardArgs args = host.args();
        int differ = 0;
        for (std::int64_t head = 0; head < 2; ++head) {
          for (std::int64_t row = 0; row < 40; ++row) {
            for (std::int64_t d = 0; d < 64; ++d) {
              const double out = tensor::load(
                  args.out.data, dtype, head * args.out.strides[1] + row * args.out.strides[2] + d);
              differ += out != tensor::load(args.v.data, dtype, head * args.v.strides[1] + d);
            }
          }
        }
        CHECK(differ == 0);
      }
    }
  }
}

TEST_CASE("scores of any size are right, forward and backward, on both paths") {
  Bench bench;
  const codegen::Arch arch = codegen::find_arch("sm_90a");
  for (const double stddev : {1e-30, 1e4, 1e10, 1e36}) {
    for (const char* bias : {"", "11qk"}) {
      ProblemSpec spec{.heads_q = 2,
                       .seqlen_q = 70,
                       .seqlen_kv = 200,
                       .head_dim = 64,
                       .query_stddev = stddev,
                       .bias = bias};
      CAPTURE(instance::describe(spec));
      CHECK(bench.forward(spec, arch) == "");
      CHECK(bench.forward(spec, arch, kForward) == "");
      spec.backward = true;  // beyond |lse| = 2^21 what is written carries no promise
      CHECK(bench.backward(spec, arch) == "");
      CHECK(bench.backward(spec, arch, wgmma_backward(64)) == "");
    }
  }
}

}  // namespace
}  // namespace attnjit::executor_test::rounding_test
