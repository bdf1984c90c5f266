#include "explain/changes.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "unit/backward_fixtures.hpp"
#include "unit/forward_fixtures.hpp"

namespace attnjit::explain {
namespace {

template <class Args>
std::vector<std::string> names(const std::vector<Change<Args>>& changes) {
  std::vector<std::string> list;
  for (const auto& change : changes) list.push_back(change.what);
  return list;
}

// The one change whose words begin so.
template <class Args>
Change<Args> only(const std::vector<Change<Args>>& changes, const std::string& begin) {
  const auto fits = [&](const Change<Args>& change) { return change.what.starts_with(begin); };
  CAPTURE(begin);
  REQUIRE(std::ranges::count_if(changes, fits) == 1);
  return *std::ranges::find_if(changes, fits);
}

TEST_CASE("each feature of a call is left out by itself") {
  ForwardArgs args = test::forward_args();
  CHECK(without_features(args).empty());
  args.mask = test::mask(args, "b1qk");
  args.bias = test::bias(args, "1hqk");
  args.causal = true;
  args.diagonal = Diagonal::kTopLeft;
  args.softcap = 30.0f;
  const auto changes = without_features(args);
  const std::vector<std::string> all = {"mask", "bias", "causal mask", "softcap"};
  CHECK(names(changes) == all);
  const std::string whole = problem::describe(problem::make_problem(args));
  for (const auto& change : changes) {
    const std::string rest = problem::describe(problem::make_problem(change.args));
    CHECK_MESSAGE(rest.size() < whole.size(), change.what, ": ", rest);
  }
  args.window = {7, -1};
  CHECK(names(without_features(args))[2] == "causal window");
  args.causal = false;
  CHECK(names(without_features(args))[2] == "window");
}

TEST_CASE("a bias of odd rows can be padded, and then moves in vectors") {
  ForwardArgs args = test::forward_args({.seqlen_kv = 191});
  args.bias = Tensor::contiguous(test::fake_address(5), DType::kBFloat16, {1, 32, 128, 191});
  const problem::Problem problem = problem::make_problem(args);
  REQUIRE_FALSE(problem.bias.vectorized);
  const auto change = only(actions(args, problem), "pass the bias with rows of 16 bytes");
  CHECK(change.what.find("192 elements") != std::string::npos);
  CHECK(problem::make_problem(change.args).bias.vectorized);
}

TEST_CASE("tensors that are not aligned can be") {
  ForwardArgs args = test::forward_args();
  args.q.data = static_cast<std::byte*>(args.q.data) + 2;
  const problem::Problem problem = problem::make_problem(args);
  REQUIRE_FALSE(problem.aligned);
  const auto change = only(actions(args, problem), "pass q, k, v and results");
  CHECK(problem::make_problem(change.args).aligned);
}

TEST_CASE("columns that are no whole vectors can be padded, with the scale that they had") {
  const ForwardArgs args = test::forward_args({.head_dim = 63, .head_dim_v = 100});
  const problem::Problem problem = problem::make_problem(args);
  const auto change =
      only(actions(args, problem), "pad the columns of q and k to 64 and of v to 104");
  const problem::Problem padded = problem::make_problem(change.args);
  CHECK(padded.aligned);
  CHECK(padded.head_dim == 64);
  CHECK(padded.head_dim_v == 104);
  CHECK(padded.scale == problem.scale);
}

TEST_CASE("an operand of each batch element names its size in memory and one for all") {
  ForwardArgs args = test::forward_args();
  args.bias = test::bias(args, "bhqk");
  const auto change =
      only(actions(args, problem::make_problem(args)), "if all batch elements have the same bias");
  CHECK(change.what.find("1.573 MB instead of 6.291 MB") != std::string::npos);
  CHECK(problem::make_problem(change.args).bias.num_batches == 1);

  args.bias->strides[0] = 0;  // expanded, not copied: it is one plane already
  for (const auto& other : actions(args, problem::make_problem(args))) {
    CHECK_FALSE(other.what.starts_with("if all batch elements"));
  }
}

TEST_CASE("a mask of pairs can be prepared, once") {
  ForwardArgs args = test::forward_args();
  args.mask = test::mask(args, "b1qk");
  const auto change = only(actions(args, problem::make_problem(args)), "prepare the mask");
  CHECK(change.once_bytes == 4.0 * 128 * 192 * 9 / 8);
  CHECK(problem::make_problem(change.args).mask_prepared);
}

TEST_CASE("a backward loses its dbias with the bias, and can do without determinism") {
  BackwardArgs args = test::backward_args();
  args.forward.bias = test::bias(args.forward, "bhqk");
  args.dbias = *args.forward.bias;
  args.dbias->data = test::fake_address(20);
  args.deterministic = true;
  const auto without = without_features(args);
  CHECK_FALSE(only(without, "bias with its gradient").args.dbias);
  CHECK(only(without, "gradient of the bias alone").args.forward.bias);
  const auto change = only(actions(args, problem::make_problem(args)), "ask for gradients");
  CHECK_FALSE(problem::make_problem(change.args).deterministic);
  const auto one_plane = only(actions(args, problem::make_problem(args)), "if all batch elements");
  CHECK(problem::make_problem(one_plane.args).dbias.batches == 1);
}

}  // namespace
}  // namespace attnjit::explain
