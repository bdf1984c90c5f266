#include "problem/manifest_line.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "cli/input/cases.hpp"
#include "cli/input/manifest.hpp"
#include "problem/plan_key.hpp"
#include "unit/backward_fixtures.hpp"

namespace attnjit::test {
namespace {

// The problem that a manifest of `problem`'s line describes.
template <class Problem>
instance::ProblemSpec read_spec(const Problem& problem) {
  const cli::Manifest manifest = cli::parse_manifest(problem::manifest_line(problem), "line");
  REQUIRE(manifest.cases.size() == 1);
  CHECK(manifest.cases[0].name == problem::describe(problem));
  return manifest.cases[0].spec;
}
problem::Problem read_back(const problem::Problem& problem) {
  return cli::make_problem(read_spec(problem));
}

TEST_CASE("a problem survives its manifest line") {
  std::vector<ForwardArgs> calls(13, forward_args());
  calls[1].causal = true;
  calls[1].diagonal = Diagonal::kBottomRight;
  calls[2].window = {100, -1};
  calls[2].diagonal = Diagonal::kTopLeft;
  calls[3].mask = mask(calls[3], "b1qk");
  calls[3].bias = operand(calls[3], "1gqk", DType::kFloat32);
  calls[4].scale = 0.3f;
  calls[4].softcap = 50.0f;
  calls[5].seqlens_q = calls[5].seqlens_kv = fake_address<std::int32_t>(6);
  calls[6] = forward_args({.batch = 1, .heads_q = 3, .heads_kv = 1, .dtype = DType::kFloat16});
  calls[7].alibi_slopes = operand(calls[7], "bh11", DType::kFloat32);
  calls[7].diagonal = Diagonal::kBottomRight;
  calls[7].diagonal_offset = 3;
  calls[8].row_max = calls[8].max_logits = fake_address<float>(8);
  page_keys(calls[9], 16);
  calls[9].block_table_stride = calls[9].max_pages;
  calls[9].seqlens_q = calls[9].seqlens_kv;
  calls[10] = calls[9];
  pack_queries(calls[10]);
  calls[9].tail_mask = tail_mask(calls[9]);
  const auto lists = [](std::array<std::int64_t, 4> shape) {
    return Tensor::contiguous(fake_address(41), DType::kInt32, shape);
  };
  calls[11].blocks = {.block_q = 64,
                      .block_kv = 128,
                      .indices = lists({1, 8, 2, 2}),
                      .counts = lists({1, 8, 2, 1}),
                      .full_indices = lists({1, 8, 2, 2}),
                      .full_counts = lists({1, 8, 2, 1}),
                      .num_kv_blocks = 0};
  calls[12].key_indices = lists({1, 8, 1, 40});
  calls[12].key_indices->dtype = DType::kInt64;
  calls[12].mask = operand(calls[12], "bhqk", DType::kBool);
  calls[12].bias = operand(calls[12], "1gqk", DType::kFloat32);
  calls[12].causal = true;
  calls[12].diagonal = Diagonal::kTopLeft;
  for (ForwardArgs& args : calls) {
    args.lse = fake_address<float>(7);  // a manifest's problems have one
    const problem::Problem problem = problem::make_problem(args);
    CAPTURE(problem::describe(problem));
    CHECK(problem::describe(read_back(problem)) == problem::describe(problem));
    CHECK(problem::plan_key(read_back(problem)) == problem::plan_key(problem));
  }
}

TEST_CASE("a backward survives its manifest line") {
  std::vector<BackwardArgs> calls(3, backward_args());
  calls[1].forward.causal = true;
  calls[1].forward.diagonal = Diagonal::kBottomRight;
  calls[1].deterministic = true;
  calls[1].dlse = fake_address<float>(7);
  calls[2] = bias_args("1hqk");
  calls[2].dbias->dtype = DType::kFloat32;
  for (const BackwardArgs& args : calls) {
    const problem::BackwardProblem problem = problem::make_problem(args);
    const auto again = cli::make_backward_problem(read_spec(problem));
    CHECK(problem::describe(again) == problem::describe(problem));
    CHECK(problem::plan_key(again) == problem::plan_key(problem));
  }
}

TEST_CASE("a manifest line keeps the layout") {
  ForwardArgs args = forward_args();
  for (Tensor* tensor : {&args.q, &args.k, &args.v, &args.out}) {
    tensor->strides[1] = tensor->shape[3];
    tensor->strides[2] = tensor->shape[1] * tensor->shape[3];
  }
  const problem::Problem problem = problem::make_problem(args);
  CHECK(read_back(problem).q == problem.q);
  args.q.strides[1] = std::numeric_limits<std::int64_t>::min();  // further apart than rows
  CHECK(problem::manifest_line(problem::make_problem(args)).find("layout") == std::string::npos);
}

}  // namespace
}  // namespace attnjit::test
