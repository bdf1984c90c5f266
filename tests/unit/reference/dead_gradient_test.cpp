#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "instance/host_problem.hpp"
#include "reference/backward.hpp"
#include "tensor/half.hpp"
#include "unit/instance_specs.hpp"

namespace attnjit::reference::reference_dead_gradient_test {
namespace {

using instance::HostProblem;
using instance::ProblemSpec;
using instance::small_backward;
using tensor::load;
using tensor::MaskKind;
using tensor::store;

constexpr Arithmetic kArithmetics[] = {Arithmetic::kExact, Arithmetic::kRounded};

BackwardResult run(const HostProblem& problem, Arithmetic arithmetic) {
  return backward(problem.backward_args(), arithmetic, Planes::every(), 2);
}

TEST_CASE("dead rows add exactly 0, whatever dout, dlse and q hold there") {
  ProblemSpec spec = small_backward();
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kDeadRows;
  spec.use_seqlens_q = true;
  spec.seqlens_q = {40, 0};
  const HostProblem clean(spec, 2);
  spec.poison_dropped_keys = true;  // dout and dlse of dead rows too
  const HostProblem poisoned(spec, 2);
  const BackwardArgs args = poisoned.backward_args();
  for (std::int64_t row = 0; row < 2 * 4 * 70; ++row) {
    for (std::int64_t d = 0; std::isinf(args.forward.lse[row]) && d < 16; ++d) {
      store(args.forward.q.data, spec.dtype, row * 16 + d, NAN);
    }
  }
  CHECK(std::isnan(args.dlse[2]));
  for (const Arithmetic arithmetic : kArithmetics) {
    const BackwardResult want = run(clean, arithmetic);
    const BackwardResult got = run(poisoned, arithmetic);
    CHECK(want.dq.values == got.dq.values);
    CHECK(want.dk.values == got.dk.values);
    CHECK(want.dv.values == got.dv.values);
    CHECK(want.dbias.values == got.dbias.values);
    CHECK(
        std::all_of(&got.dq.values[2 * 16], &got.dq.values[3 * 16], [](auto x) { return x == 0; }));
    CHECK(got.dq.values[0] != 0);
    // Batch element 1 has no row in use.
    CHECK(std::all_of(got.dk.values.begin() + 2 * 90 * 16, got.dk.values.end(),
                      [](double x) { return x == 0; }));
  }
}

TEST_CASE("a dropped key contributes nothing, and its own gradient is 0") {
  ProblemSpec spec = small_backward();
  spec.mask = "b11k";
  spec.mask_kind = MaskKind::kScattered;
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  spec.poison_dropped_keys = true;
  const HostProblem problem(spec, 2);
  const ForwardArgs args = problem.args();
  for (const Arithmetic arithmetic : kArithmetics) {
    const BackwardResult result = run(problem, arithmetic);
    int not_finite = 0;
    for (const Gradient* gradient : {&result.dq, &result.dk, &result.dv, &result.dbias}) {
      for (const double value : gradient->values) not_finite += !std::isfinite(value);
      for (const double value : gradient->terms) not_finite += !std::isfinite(value);
    }
    CHECK(not_finite == 0);
    int dropped = 0;
    int wrong = 0;
    for (std::int64_t row = 0; row < 2 * 2 * 90; ++row) {
      if (std::isfinite(load(args.k.data, args.k.dtype, row * 16))) continue;
      ++dropped;
      for (std::int64_t d = 0; d < 16; ++d) wrong += result.dk.values[row * 16 + d] != 0;
      for (std::int64_t d = 0; d < 24; ++d) wrong += result.dv.values[row * 24 + d] != 0;
    }
    CHECK(dropped > 80);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a kept key follows IEEE rules") {
  ProblemSpec spec = small_backward();
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  const HostProblem problem(spec, 1);
  store(problem.args().v.data, spec.dtype, 5 * 24, NAN);  // key 5 of the first plane
  const BackwardResult result = run(problem, Arithmetic::kExact);
  CHECK(std::isfinite(result.dq.values[4 * 16]));
  CHECK(std::isnan(result.dq.values[5 * 16]));
  CHECK(std::isfinite(result.dv.values[5 * 24]));  // needs no v
}

TEST_CASE("a row whose lse is 2^21 or more promises no gradient, nor do the keys that it keeps") {
  ProblemSpec spec = small_backward();
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  spec.alibi = "h";
  spec.slopes = {1};
  spec.sink_dtype = DType::kFloat32;
  spec.use_sink = spec.want_dsink = true;
  // The last key is the nearest: lse of row i is about 89 - i - the offset.
  const auto finite = [&](std::int64_t offset) {
    spec.diagonal_offset = offset;
    spec.sinks = {static_cast<float>(-offset)};
    const BackwardResult result = run(HostProblem(spec, 1), Arithmetic::kExact);
    const auto is_finite = [](double x) { return std::isfinite(x); };
    const auto count = [&](const Gradient& gradient) {
      return std::count_if(gradient.values.begin(), gradient.values.end(), is_finite);
    };
    return std::vector<std::int64_t>{count(result.dq), count(result.dk), count(result.dv),
                                     count(result.dbias), count(result.dsink)};
  };
  using Counts = std::vector<std::int64_t>;
  const std::int64_t dq = 2 * 4 * 70 * 16, dk = 2 * 2 * 90 * 16, dv = 2 * 2 * 90 * 24;
  CHECK(finite((1 << 21) - 100) == Counts{dq, dk, dv, 4 * 70 * 90, 4});
  const Counts some = finite((1 << 21) + 40);
  CHECK(some[0] > 0);
  CHECK(some[0] < dq);
  CHECK(some[0] % 16 == 0);
  CHECK(some[1] == 0);  // each key is kept by the last rows
  CHECK(some[2] == 0);
  CHECK(some[3] > 0);
  CHECK(some[4] == 0);
}

// Of batch element 0, which keeps 30 keys, every row has such an lse.
TEST_CASE("a row without a promise takes none from elements of dbias that others add to") {
  ProblemSpec spec = small_backward();
  spec.alibi = "bh";
  spec.slopes = {0x1p17f, 0x1p17f, 0x1p17f, 0x1p17f, 0, 0, 0, 0};
  spec.diagonal = Diagonal::kTopLeft;
  spec.diagonal_offset = 1000;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {30, 90};
  const Gradient dbias = run(HostProblem(spec, 1), Arithmetic::kExact).dbias;
  for (std::int64_t row = 0; row < 4 * 70; ++row) {
    CHECK(std::isnan(dbias.values[row * 90 + 29]));
    CHECK(std::isfinite(dbias.values[row * 90 + 30]));
    CHECK(std::isfinite(dbias.terms[row]));
    CHECK(dbias.terms[row] > 0);
  }
}

TEST_CASE("the gradient of a bias that is broadcast over keys is the sum of dlse") {
  for (const char* pattern : {"1hq1", "b1q1", "bg11", "1111"}) {
    for (const Arithmetic arithmetic : kArithmetics) {
      ProblemSpec spec = small_backward();
      spec.bias = pattern;
      spec.mask = "11qk";
      spec.mask_kind = MaskKind::kDeadRows;
      spec.bias_dtype = DType::kFloat32;
      const HostProblem problem(spec, 1);
      const BackwardArgs args = problem.backward_args();
      const BackwardResult result = run(problem, arithmetic);
      std::vector<double> want(result.dbias.values.size());
      const auto& shape = args.dbias->shape;
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t i = 0; i < 70; ++i) {
            const std::int64_t row = (b * 4 + h) * 70 + i;
            const std::int64_t plane = b % shape[0] * shape[1] + h * shape[1] / 4;
            if (std::isinf(args.forward.lse[row])) continue;
            want[plane * shape[2] + i % shape[2]] += args.dlse[row];
          }
        }
      }
      for (std::size_t i = 0; i < want.size(); ++i) {
        CHECK(result.dbias.values[i] == doctest::Approx(want[i]).epsilon(1e-5));
      }
      spec.want_dlse = false;
      const BackwardResult without = run(HostProblem(spec, 1), arithmetic);
      CHECK(without.dbias.values == std::vector<double>(want.size(), 0));
    }
  }
}

}  // namespace
}  // namespace attnjit::reference::reference_dead_gradient_test
