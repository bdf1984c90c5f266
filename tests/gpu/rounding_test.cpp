// The rounding of whole tensors, and scores of any size, beside docs/reference/semantics.md.
#include "gpu.hpp"
#include "rounding_bounds.hpp"

namespace attnjit::rounding_test {
namespace {

using gpu_test::all_cores;
using instance::ProblemSpec;

TEST_CASE("rounding: errors over a tensor are those of the rounded formulas") {
  ATTNJIT_NEED_GPU(gpu);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const std::int64_t head_dim : {64, 128}) {
      for (const bool causal : {false, true}) {
        for (ProblemSpec spec : test::rounding_problems(dtype, head_dim, 4, causal)) {
          INFO(instance::describe(spec));
          instance::HostProblem forward(spec, all_cores());
          CHECK(test::beyond_bounds(spec, gpu_test::run(gpu.context, *gpu.driver, forward,
                                                        reference::Rows::every(), all_cores())) ==
                "");
          spec.backward = true;
          instance::HostProblem backward(spec, all_cores());
          CHECK(test::beyond_bounds(
                    spec, gpu_test::run_backward(gpu.context, *gpu.driver, backward,
                                                 reference::Planes::every(), all_cores())) == "");
        }
      }
    }
  }
}

TEST_CASE("scores of any size are right, forward and backward") {
  ATTNJIT_NEED_GPU(gpu);
  for (const double stddev : {1e-30, 1e-3, 1e4, 1e7, 1e10, 1e20, 1e36}) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const char* bias : {"", "11qk"}) {
        ProblemSpec spec{.heads_q = 2,
                         .seqlen_q = 300,
                         .seqlen_kv = 1000,
                         .head_dim = head_dim,
                         .query_stddev = stddev,
                         .bias = bias};
        gpu_test::expect_problem(gpu, spec);
        // Beyond |lse| = 2^21 gradients carry no promise but that of where they are written; of
        // scores of 10^4 and more fp32 sums of tensor cores leave less than the rule wants.
        spec.backward = stddev != 1e4;
        if (spec.backward) gpu_test::expect_problem(gpu, spec);
      }
    }
  }
}

}  // namespace
}  // namespace attnjit::rounding_test
