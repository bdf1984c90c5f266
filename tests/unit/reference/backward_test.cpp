#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "attnjit/error.hpp"
#include "instance/host_problem.hpp"
#include "reference/backward.hpp"
#include "tensor/half.hpp"
#include "unit/instance_specs.hpp"

namespace attnjit::reference {
namespace {

using instance::HostProblem;
using instance::ProblemSpec;
using instance::small_backward;
using tensor::round_to;
using tensor::unit_roundoff;

constexpr Gradient BackwardResult::*kGradients[] = {&BackwardResult::dq, &BackwardResult::dk,
                                                    &BackwardResult::dv, &BackwardResult::dbias};
constexpr Arithmetic kArithmetics[] = {Arithmetic::kExact, Arithmetic::kRounded};

BackwardResult run(const HostProblem& problem, Arithmetic arithmetic,
                   const Planes& planes = Planes::every()) {
  return backward(problem.backward_args(), arithmetic, planes, 2);
}

bool same(const BackwardResult& a, const BackwardResult& b) {
  return std::ranges::all_of(kGradients, [&](auto which) {
    return (a.*which).values == (b.*which).values && (a.*which).terms == (b.*which).terms;
  });
}

// One query and two keys of one column each, and a bias of zeros whose gradient is wanted.
BackwardArgs two_keys(DType dtype, void* q, void* k, void* v, void* dout) {
  static std::uint64_t zeros = 0;
  const auto tensor = [&](void* data, std::int64_t rows, std::int64_t columns) {
    return Tensor::contiguous(data, dtype, {1, 1, rows, columns});
  };
  BackwardArgs args;
  args.forward.q = args.dq = tensor(q, 1, 1);
  args.forward.k = args.dk = tensor(k, 2, 1);
  args.forward.v = args.dv = tensor(v, 2, 1);
  args.forward.out = tensor(nullptr, 1, 1);
  args.dout = tensor(dout, 1, 1);
  args.forward.bias = args.dbias = tensor(&zeros, 1, 2);
  return args;
}

TEST_CASE("two keys by hand") {
  // q = 1, k = {0, log 3}, v = {0, 4}: p = {1/4, 3/4}, out = 3. With dout = 2 and dlse = 1 come
  // delta = 5, dp = {0, 8} and ds = {-5/4, 9/4}.
  float q = 1, dout = 2, dlse = 1, k[] = {0, std::log(3.0f)}, v[] = {0, 4};
  BackwardArgs args = two_keys(DType::kFloat32, &q, k, v, &dout);
  args.dlse = &dlse;
  const BackwardResult result = backward(args, Arithmetic::kExact, Planes::every(), 1);
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-6); };
  CHECK(result.dbias.values[0] == near(-1.25));
  CHECK(result.dbias.values[1] == near(2.25));
  CHECK(result.dq.values[0] == near(2.25 * std::log(3.0)));
  CHECK(result.dk.values[0] == near(-1.25));
  CHECK(result.dk.values[1] == near(2.25));
  CHECK(result.dv.values[0] == near(0.5));
  CHECK(result.dv.values[1] == near(1.5));
  const auto about = [](double value) { return doctest::Approx(value).epsilon(1e-3); };
  // Errors of scores and lse in fp32, in units of 2^-20, beside the terms; and the rounding of
  // out.
  const double lost[] = {0.5 * std::log(4.0), 0.5 * (std::log(3.0) + std::log(4.0))};
  const double terms[] = {0.25 * 5 * lost[0], 0.75 * std::hypot(2 * 4, 3 * lost[1])};
  CHECK(result.dbias.terms[0] == about(std::hypot(terms[0], terms[1])));
  CHECK(result.dk.terms[1] == about(terms[1]));
  CHECK(result.dv.terms[1] == about(0.75 * 2 * lost[1]));
}

TEST_CASE("terms count what an out that is rounded changes in delta") {
  // Two keys of weight 1/2, v = {1, 1 + 2^-7}: out = 1 + 2^-8, which bf16 rounds by 2^-8.
  std::uint16_t q = 0, dout = 0, k[] = {0, 0}, v[] = {0, 0};
  tensor::store(&dout, DType::kBFloat16, 0, 2);
  tensor::store(v, DType::kBFloat16, 0, 1);
  tensor::store(v, DType::kBFloat16, 1, 1 + 0x1p-7);
  const BackwardArgs args = two_keys(DType::kBFloat16, &q, k, v, &dout);
  const double rounding = 2 * 0x1p-8 * kDeltaErrors / kTermTolerance;
  const BackwardResult result = backward(args, Arithmetic::kExact, Planes::every(), 1);
  CHECK(result.dbias.terms[0] == doctest::Approx(0.5 * std::sqrt(2.0) * rounding).epsilon(1e-6));
  tensor::store(v, DType::kBFloat16, 1, 1);  // now out = 1, and nothing is rounded
  const BackwardResult one = backward(args, Arithmetic::kExact, Planes::every(), 1);
  CHECK(one.dbias.terms[0] == doctest::Approx(0.5 * std::sqrt(2.0) * 2));
}

TEST_CASE("terms count what a sum of fp32 leaves of a score, where a softcap is far below it") {
  // Scores 0 and 16 with a cap of 2: x = 8, where a slope is 4 exp(-16). |ds| is 4 p (1 - p).
  float q = 2, dout = 1, k[] = {0, 8}, v[] = {0, 4};
  BackwardArgs args = two_keys(DType::kFloat32, &q, k, v, &dout);
  args.forward.softcap = 2;
  const BackwardResult result = backward(args, Arithmetic::kExact, Planes::every(), 1);
  const double p = 1 / (1 + std::exp(-2.0)), slope = 4 * std::exp(-16.0);
  const double of_slope = 4 * p * (1 - p) * slope * 2 * kScoreTolerance / kTermTolerance * 16 / 2;
  const double of_ds = p * 4 * slope;
  CHECK(result.dk.terms[1] == doctest::Approx(2 * std::hypot(of_ds, of_slope)).epsilon(1e-3));
  CHECK(result.dq.terms[0] == doctest::Approx(8 * std::hypot(of_ds, of_slope)).epsilon(1e-3));
}

TEST_CASE("the rounded gradients are off by their roundings, no less and no more") {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    ProblemSpec spec = small_backward();
    spec.dtype = dtype;
    const HostProblem problem(spec, 2);
    const BackwardResult exact = run(problem, Arithmetic::kExact);
    const BackwardResult rounded = run(problem, Arithmetic::kRounded);
    for (const auto which : kGradients) {
      double error = 0;
      double magnitude = 0;
      int unrounded = 0;
      const std::vector<double>& values = (rounded.*which).values;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double want = (exact.*which).values[i];
        error = std::max(error, std::fabs(values[i] - want));
        magnitude = std::max(magnitude, std::fabs(want));
        unrounded += values[i] != round_to(dtype, values[i]);
      }
      CHECK(unrounded == 0);
      CHECK(error > 0.1 * unit_roundoff(dtype) * magnitude);
      CHECK(error < 2 * unit_roundoff(dtype) * magnitude);
    }
  }
}

TEST_CASE("dbias is rounded to its own dtype") {
  ProblemSpec spec = small_backward();
  spec.dbias_dtype = DType::kFloat32;
  const BackwardResult result = run(HostProblem(spec, 2), Arithmetic::kRounded);
  int wide = 0;
  for (const double value : result.dbias.values) {
    REQUIRE(value == round_to(DType::kFloat32, value));
    wide += value != round_to(spec.dtype, value);
  }
  CHECK(wide > 0);
}

TEST_CASE("dbias sums over the axes of its own shape") {
  ProblemSpec spec = small_backward();
  spec.bias = "b11k";
  spec.memory.expand_broadcast = true;
  const HostProblem problem(spec, 1);
  const BackwardResult narrow = run(problem, Arithmetic::kExact);
  BackwardArgs args = problem.backward_args();
  args.dbias = Tensor::contiguous(nullptr, spec.dtype, args.forward.bias->shape);
  const BackwardResult full = backward(args, Arithmetic::kExact, Planes::every(), 1);
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t j = 0; j < 90; ++j) {
      double sum = 0;
      for (std::size_t row = 0; row < 4 * 70; ++row) {
        sum += full.dbias.values[(b * 4 * 70 + row) * 90 + j];
      }
      CHECK(narrow.dbias.values[b * 90 + j] == doctest::Approx(sum));
    }
  }
}

TEST_CASE("selected planes equal those of a full run, and the others are not computed") {
  const HostProblem problem(small_backward(), 2);
  const BackwardResult full = run(problem, Arithmetic::kExact);
  // Kv head 1 of both batch elements: all that adds to heads 2 and 3 of the bias, 1hqk.
  const BackwardResult some = run(problem, Arithmetic::kExact, Planes::only({{0, 1}, {1, 1}}));
  for (const auto which : kGradients) {
    const std::vector<double>& values = (some.*which).values;
    std::size_t computed = 0;
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      computed += !std::isnan(values[i]);
      wrong += !std::isnan(values[i]) && values[i] != (full.*which).values[i];
    }
    CHECK(wrong == 0);
    CHECK(computed == values.size() / 2);
  }
  CHECK(std::isnan(some.dk.values[0]));
  CHECK_FALSE(std::isnan(some.dk.values[90 * 16]));
  const BackwardResult half = run(problem, Arithmetic::kExact, Planes::only({{0, 1}}));
  CHECK(std::ranges::all_of(half.dbias.values, [](double x) { return std::isnan(x); }));
}

TEST_CASE("gradients do not depend on the number of threads") {
  const HostProblem problem(small_backward(), 1);
  const BackwardArgs args = problem.backward_args();
  for (const Arithmetic arithmetic : kArithmetics) {
    CHECK(same(backward(args, arithmetic, Planes::every(), 1),
               backward(args, arithmetic, Planes::every(), 7)));
  }
}

TEST_CASE("backward problems without rows or keys") {
  for (const int axis : {0, 1, 2}) {
    ProblemSpec spec = small_backward();
    (axis == 0 ? spec.batch : axis == 1 ? spec.seqlen_q : spec.seqlen_kv) = 0;
    const HostProblem problem(spec, 2);
    for (const Arithmetic arithmetic : kArithmetics) {
      const BackwardResult result = run(problem, arithmetic);
      for (const auto which : kGradients) {
        CHECK(std::ranges::all_of((result.*which).values, [](double x) { return x == 0; }));
      }
    }
  }
}

TEST_CASE("gradients that do not fit are refused") {
  const HostProblem problem(small_backward(), 1);
  BackwardArgs args = problem.backward_args();
  const auto refused = [&](const char* message) {
    CHECK_THROWS_WITH_AS(backward(args, Arithmetic::kExact, Planes::every(), 1), message, Error);
  };
  SUBCASE("dout") {
    args.dout.shape[3] = 16;
    refused("dout: feature axis is 16; expected 24");
  }
  SUBCASE("dv") {
    args.dv.shape[2] = 70;
    refused("dv: sequence axis is 70; expected 90");
  }
  SUBCASE("dbias") {
    args.dbias->shape[2] = 69;
    refused("dbias: query axis is 69; expected 1 or 70");
  }
  SUBCASE("dbias without a bias") {
    args.forward.bias.reset();
    refused("dbias: asked for without a bias; expected a bias");
  }
}

}  // namespace
}  // namespace attnjit::reference
