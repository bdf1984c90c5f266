#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attnjit/error.hpp"
#include "reference/forward.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference::reference_forward_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A dense bf16 tensor, or one of another dtype, with values written out by hand.
struct Small {
  Small(std::array<std::int64_t, 4> shape, std::vector<double> values,
        DType dtype = DType::kBFloat16)
      : memory(values.size() * 4 + 1), view(Tensor::contiguous(memory.data(), dtype, shape)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      tensor::store(memory.data(), dtype, static_cast<std::int64_t>(i), values[i]);
    }
  }
  std::vector<std::uint8_t> memory;
  Tensor view;
};

ForwardArgs make_args(const Small& q, const Small& k, const Small& v) {
  ForwardArgs args;
  args.q = q.view;
  args.k = k.view;
  args.v = v.view;
  args.out = Tensor::contiguous(
      nullptr, q.view.dtype, {q.view.shape[0], q.view.shape[1], q.view.shape[2], v.view.shape[3]});
  return args;
}

ForwardResult exact(const ForwardArgs& args) {
  return forward(args, Arithmetic::kExact, Rows::every(), 1);
}

// One head, rows {1, 2}, keys {1, -1}, D = 1; values are the key's index plus 1.
struct TwoByTwo {
  Small q{{1, 1, 2, 1}, {1, 2}};
  Small k{{1, 1, 2, 1}, {1, -1}};
  Small v{{1, 1, 2, 1}, {1, 2}};
  ForwardArgs args() const { return make_args(q, k, v); }
};

double mix(double first, double second) {  // of values 1 and 2 by two scores
  return (std::exp(first) + 2 * std::exp(second)) / (std::exp(first) + std::exp(second));
}

TEST_CASE("two rows and two keys by hand") {
  const TwoByTwo problem;
  const ForwardResult result = exact(problem.args());
  CHECK(result.out[0] == doctest::Approx(mix(1, -1)));
  CHECK(result.out[1] == doctest::Approx(mix(2, -2)));
  CHECK(result.lse[0] == doctest::Approx(std::log(std::exp(1.0) + std::exp(-1.0))));
  CHECK(result.lse[1] == doctest::Approx(std::log(std::exp(2.0) + std::exp(-2.0))));
}

TEST_CASE("the default scale is one over the root of D, zero and negative scales are legal") {
  const Small q({1, 1, 1, 4}, {2, 0, 0, 0});
  const Small k({1, 1, 2, 4}, {1, 0, 0, 0, -1, 0, 0, 0});
  const Small v({1, 1, 2, 1}, {1, 2});
  ForwardArgs args = make_args(q, k, v);
  CHECK(exact(args).out[0] == doctest::Approx(mix(1, -1)));
  args.scale = 0.0f;
  CHECK(exact(args).out[0] == 1.5);
  CHECK(exact(args).lse[0] == doctest::Approx(std::log(2.0)));
  args.scale = -2.0f;
  CHECK(exact(args).out[0] == doctest::Approx(mix(-4, 4)));
}

TEST_CASE("the bias is added after the scale and is never scaled") {
  const TwoByTwo problem;
  const Small bias({1, 1, 2, 2}, {0, 1, 2, 4}, DType::kFloat32);
  ForwardArgs args = problem.args();
  args.scale = 0.5f;
  args.bias = bias.view;
  const ForwardResult result = exact(args);
  CHECK(result.out[0] == doctest::Approx(mix(0.5, 0.5)));
  CHECK(result.out[1] == doctest::Approx(mix(3, 3)));
}

TEST_CASE("rows without a live key give 0 and -inf") {
  const TwoByTwo problem;
  ForwardArgs args = problem.args();
  SUBCASE("mask") {
    const Small mask({1, 1, 2, 2}, {0, 0, 0, 1}, DType::kBool);
    args.mask = mask.view;
    for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kRounded}) {
      const ForwardResult result = forward(args, arithmetic, Rows::every(), 1);
      CHECK(result.out == std::vector<double>{0, 2});
      CHECK(result.lse == std::vector<double>{-kInfinity, -2});
    }
  }
  SUBCASE("everything masked") {
    const Small mask({1, 1, 1, 1}, {0}, DType::kBool);
    args.mask = mask.view;
    CHECK(exact(args).out == std::vector<double>{0, 0});
    CHECK(exact(args).lse == std::vector<double>{-kInfinity, -kInfinity});
  }
  SUBCASE("bias of -inf or below -1e38") {
    for (const double dead : {-kInfinity, -3.3e38, -1.001e38}) {
      const Small bias({1, 1, 2, 2}, {dead, dead, dead, 0}, DType::kFloat32);
      args.bias = bias.view;
      for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kRounded}) {
        const ForwardResult result = forward(args, arithmetic, Rows::every(), 1);
        CHECK(result.out == std::vector<double>{0, 2});
        CHECK(result.lse == std::vector<double>{-kInfinity, -2});
      }
    }
  }
  SUBCASE("more rows than keys, bottom right") {
    const Small q({1, 1, 3, 1}, {1, 1, 1});
    args = make_args(q, problem.k, problem.v);
    args.causal = true;
    args.diagonal = Diagonal::kBottomRight;
    const ForwardResult result = exact(args);
    CHECK(result.out[0] == 0);
    CHECK(result.lse[0] == -kInfinity);
    CHECK(result.out[1] == 1);
    CHECK(result.out[2] == doctest::Approx(mix(1, -1)));
  }
  SUBCASE("no keys at all") {
    const Small none({1, 1, 0, 1}, {});
    args = make_args(problem.q, none, none);
    CHECK(exact(args).out == std::vector<double>{0, 0});
    CHECK(exact(args).lse == std::vector<double>{-kInfinity, -kInfinity});
  }
}

TEST_CASE("large scores: lse far below -88, and above the range of exp") {
  const Small q({1, 1, 1, 1}, {1});
  const Small k({1, 1, 2, 1}, {-1000, -1000});
  const Small v({1, 1, 2, 1}, {1, 2});
  ForwardArgs args = make_args(q, k, v);
  for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kRounded}) {
    args.scale = 1.0f;
    ForwardResult result = forward(args, arithmetic, Rows::every(), 1);
    CHECK(result.out[0] == 1.5);
    CHECK(result.lse[0] == doctest::Approx(-1000 + std::log(2.0)));
    args.scale = -1.0f;
    result = forward(args, arithmetic, Rows::every(), 1);
    CHECK(result.out[0] == 1.5);
    CHECK(result.lse[0] == doctest::Approx(1000 + std::log(2.0)));
  }
}

TEST_CASE("a slope promises no out 2^24 and more from the diagonal") {
  const TwoByTwo problem;
  for (const float slope : {0.0f, 0.5f}) {
    float slopes[] = {slope};
    ForwardArgs args = problem.args();
    args.diagonal = Diagonal::kTopLeft;
    args.alibi_slopes = Tensor::contiguous(slopes, DType::kFloat32, {1, 1, 1, 1});
    args.diagonal_offset = (1 << 24) - 2;  // row 1 is 2^24 - 1 from key 0
    CHECK(std::isfinite(exact(args).out[1]));
    args.diagonal_offset += 1;
    CHECK(std::isfinite(exact(args).out[0]));
    CHECK(std::isnan(exact(args).out[1]) == (slope != 0));
    CHECK(std::isfinite(exact(args).lse[1]));
    CHECK(std::isfinite(forward(args, Arithmetic::kRounded, Rows::every(), 1).out[1]));
  }
}

TEST_CASE("a query head reads the kv head of its group") {
  const Small q({1, 6, 1, 1}, {0, 0, 0, 0, 0, 0});
  const Small k({1, 2, 1, 1}, {0, 0});
  const Small v({1, 2, 1, 1}, {10, 20});
  ForwardArgs args = make_args(q, k, v);
  CHECK(exact(args).out == std::vector<double>{10, 10, 10, 20, 20, 20});
  const Small bias({1, 2, 1, 1}, {3, 5});  // a plane per kv head
  args.bias = bias.view;
  CHECK(exact(args).lse == std::vector<double>{3, 3, 3, 5, 5, 5});
}

TEST_CASE("a dropped key contributes nothing, a kept one follows IEEE rules") {
  for (const double bad : {kNan, kInfinity}) {
    const Small q({1, 1, 2, 1}, {1, 2});
    const Small k({1, 1, 2, 1}, {1, bad});
    const Small v({1, 1, 2, 1}, {7, bad});
    ForwardArgs args = make_args(q, k, v);
    args.causal = true;
    args.diagonal = Diagonal::kTopLeft;
    for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kRounded}) {
      const ForwardResult result = forward(args, arithmetic, Rows::every(), 1);
      CHECK(result.out[0] == 7);
      CHECK(result.lse[0] == 1);
      CHECK(std::isnan(result.out[1]));
    }
  }
}

TEST_CASE("seqlens clamp to the tensor, end rows and keys, and move the diagonal") {
  const Small q({4, 1, 2, 1}, std::vector<double>(8, 0));
  const Small k({4, 1, 3, 1}, std::vector<double>(12, 0));
  const Small v({4, 1, 3, 1}, {3, 5, kNan, 1, 2, 6, 1, 2, 6, 1, 2, 6});
  const std::int32_t rows[] = {2, 1, 9, 2};
  const std::int32_t keys[] = {2, 9, 1, -4};
  ForwardArgs args = make_args(q, k, v);
  args.seqlens_q = rows;
  args.seqlens_kv = keys;
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
  const ForwardResult result = exact(args);
  // Batch 0: 2 rows, 2 keys. 1: one row sees all 3 keys. 2: row 1 sees the only key. 3: no keys.
  CHECK(result.out == std::vector<double>{3, 4, 3, 0, 0, 1, 0, 0});
  CHECK(result.lse[3] == -kInfinity);
  CHECK(result.lse[4] == -kInfinity);
  CHECK(result.lse[6] == -kInfinity);
}

TEST_CASE("selected rows equal the same rows of a full run") {
  std::vector<double> values(130 * 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<double>(i));
  }
  const Small q({1, 2, 130, 1}, values);
  const Small k({1, 1, 130, 2}, values);
  const Small k1({1, 1, 130, 1}, {values.begin(), values.begin() + 130});
  ForwardArgs args = make_args(q, k1, k);
  args.window = {3, 1};
  args.diagonal = Diagonal::kTopLeft;
  const ForwardResult full = exact(args);
  const Rows rows = Rows::only({129, 0, 64, 63, 64});
  CHECK(rows.list == std::vector<std::int64_t>{0, 63, 64, 129});
  const ForwardResult some = forward(args, Arithmetic::kExact, rows, 2);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t r = 0; r < 4; ++r) {
      const std::size_t row = head * 130 + static_cast<std::size_t>(rows.list[r]);
      CHECK(some.lse[head * 4 + r] == full.lse[row]);
      CHECK(some.out[(head * 4 + r) * 2] == full.out[row * 2]);
    }
  }
  const Rows sampled = Rows::sample(100000, 200, 1);
  CHECK(sampled.list.front() == 0);
  CHECK(sampled.list.back() == 99999);
  CHECK(sampled.count(100000) > 150);
  CHECK(sampled.count(100000) <= 200);
}

TEST_CASE("arguments that do not fit together are refused") {
  const TwoByTwo problem;
  ForwardArgs args = problem.args();
  SUBCASE("mask of a wrong batch axis") {
    args.mask = Tensor::contiguous(nullptr, DType::kBool, {2, 1, 2, 2});
    CHECK_THROWS_WITH_AS(exact(args), "mask: batch axis is 2; expected 1 or 1", Error);
  }
  SUBCASE("a boolean bias") {
    args.bias = Tensor::contiguous(nullptr, DType::kBool, {1, 1, 2, 2});
    CHECK_THROWS_AS(exact(args), Error);
  }
  SUBCASE("no diagonal") {
    args.causal = true;
    CHECK_THROWS_AS(exact(args), Error);
  }
  SUBCASE("v of another length") {
    args.v.shape[2] = 3;
    CHECK_THROWS_WITH_AS(exact(args), "v: sequence axis is 3; expected 2", Error);
  }
  SUBCASE("a row outside") {
    CHECK_THROWS_AS(forward(args, Arithmetic::kExact, Rows::only({2}), 1), Error);
  }
}

}  // namespace
}  // namespace attnjit::reference::reference_forward_test
