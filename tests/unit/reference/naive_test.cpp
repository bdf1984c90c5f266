#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "instance/host_problem.hpp"
#include "reference/accuracy.hpp"
#include "reference/forward.hpp"
#include "tensor/half.hpp"
#include "unit/instance_specs.hpp"

namespace attnjit::reference::reference_naive_test {
namespace {

using instance::HostProblem;
using instance::ProblemSpec;
using instance::random_spec;
using tensor::BiasKind;
using tensor::kBiasKindNames;
using tensor::kMaskKindNames;
using tensor::load;
using tensor::MaskKind;
using tensor::round_to;
using tensor::unit_roundoff;

using Real = long double;
constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

Real element(const Tensor& t, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  // Broadcast axes by modulo: an index of an axis of size 1 is always 0.
  const std::int64_t index = a % t.shape[0] * t.strides[0] + b % t.shape[1] * t.strides[1] +
                             c % t.shape[2] * t.strides[2] + d % t.shape[3] * t.strides[3];
  return load(t.data, t.dtype, index);
}

// The plane over the batch of element b, by counting through the elements before it.
std::int64_t plane_of(std::int64_t b, std::int64_t planes, const PlaneOrder& order,
                      std::int64_t batch) {
  if (order.inner == 0) return b * planes / batch;
  const std::int64_t inner = order.inner, cycle = order.cycle > 0 ? order.cycle : planes;
  std::int64_t element = 0;
  for (std::int64_t first = 0; first < planes; first += cycle) {
    for (std::int64_t repeat = 0; repeat < batch / (planes * inner); ++repeat) {
      for (std::int64_t plane = first; plane < first + cycle; ++plane) {
        for (std::int64_t i = 0; i < inner; ++i) {
          if (element++ == b) return plane;
        }
      }
    }
  }
  FAIL("no plane");
  return 0;
}

// The element of a mask or bias whose batch and head axes have as many planes as divide q's.
Real element_of(const ForwardArgs& args, const Tensor& t, const PlaneOrder& order, std::int64_t b,
                std::int64_t h, std::int64_t i, std::int64_t j) {
  const std::int64_t plane = plane_of(b, t.shape[0], order, args.q.shape[0]);
  return element(t, plane, h * t.shape[1] / args.q.shape[1], i, j);
}

std::int64_t rows_in_use(const ForwardArgs& args, std::int64_t b) {
  const std::int64_t rows = args.q.shape[2];
  if (args.seqlens_q == nullptr) return rows;
  return std::max<std::int64_t>(0, std::min<std::int64_t>(rows, args.seqlens_q[b]));
}

// The key of row 0 on the diagonal.
std::int64_t diagonal(const ForwardArgs& args, std::int64_t b) {
  std::int64_t keys = args.k.shape[2];
  if (args.seqlens_kv != nullptr) {
    keys = std::max<std::int64_t>(0, std::min<std::int64_t>(keys, args.seqlens_kv[b]));
  }
  const bool ends = args.diagonal == Diagonal::kBottomRight;
  return args.diagonal_offset + (ends ? keys - rows_in_use(args, b) : 0);
}

bool keeps(const ForwardArgs& args, std::int64_t b, std::int64_t h, std::int64_t i,
           std::int64_t j) {
  const std::int64_t rows = rows_in_use(args, b);
  std::int64_t keys = args.k.shape[2];
  if (args.seqlens_kv != nullptr) {
    keys = std::max<std::int64_t>(0, std::min<std::int64_t>(keys, args.seqlens_kv[b]));
  }
  const std::int64_t off = diagonal(args, b);
  bool keep = i < rows && j < keys;
  keep = keep && (!args.causal || j <= i + off);
  keep = keep && (args.window.left < 0 || j >= i + off - args.window.left);
  keep = keep && (args.window.right < 0 || j <= i + off + args.window.right);
  if (keep && args.mask) {
    keep = element_of(args, *args.mask, args.mask_order, b, h, i, j) != 0;
  }
  return keep;
}

struct NaiveRow {
  std::vector<Real> out;
  Real lse;
  Real max;
};

// The formulas for one row, with nothing shared with the code under test.
NaiveRow naive_row(const ForwardArgs& args, std::int64_t b, std::int64_t h, std::int64_t i) {
  const std::int64_t head_kv = h / (args.q.shape[1] / args.k.shape[1]);
  const std::int64_t dim = args.q.shape[3];
  const Real scale = args.scale ? Real(*args.scale) : 1 / std::sqrt(Real(dim));
  std::vector<Real> scores(static_cast<std::size_t>(args.k.shape[2]), -kInfinity);
  Real maximum = -kInfinity;
  for (std::int64_t j = 0; j < args.k.shape[2]; ++j) {
    if (!keeps(args, b, h, i, j)) continue;
    Real dot = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      dot += element(args.q, b, h, i, d) * element(args.k, b, head_kv, j, d);
    }
    Real score = scale * dot;
    if (args.softcap) score = *args.softcap * std::tanh(score / *args.softcap);
    if (args.bias) {
      score += element_of(args, *args.bias, args.bias_order, b, h, i, j);
    }
    if (args.alibi_slopes) {
      const Real distance = static_cast<Real>(i + diagonal(args, b) - j);
      score -= element(*args.alibi_slopes, b, h, 0, 0) * std::fabs(distance);
    }
    if (score <= Real(-1e38L)) score = -kInfinity;
    scores[static_cast<std::size_t>(j)] = score;
    maximum = std::max(maximum, score);
  }
  NaiveRow row{std::vector<Real>(static_cast<std::size_t>(args.v.shape[3]), 0), -kInfinity,
               maximum};
  Real sink = -kInfinity;
  if (args.sink && i < rows_in_use(args, b)) {
    sink = tensor::load(args.sink->data, args.sink->dtype, h * args.sink->strides[1]);
  }
  if (maximum == -kInfinity) row.lse = sink;
  if (maximum == -kInfinity) return row;
  maximum = std::max(maximum, sink);
  Real sum = std::exp(sink - maximum);
  for (std::int64_t j = 0; j < args.k.shape[2]; ++j) {
    const Real score = scores[static_cast<std::size_t>(j)];
    if (score == -kInfinity) continue;
    sum += std::exp(score - maximum);
    for (std::size_t d = 0; d < row.out.size(); ++d) {
      row.out[d] +=
          std::exp(score - maximum) * element(args.v, b, head_kv, j, static_cast<std::int64_t>(d));
    }
  }
  for (Real& value : row.out) value /= sum;
  row.lse = maximum + std::log(sum);
  return row;
}

// The largest error of `result` against the loop above, relative to max(1, |value|).
double worst_error(const ForwardArgs& args, const ForwardResult& result) {
  double worst = 0;
  std::size_t position = 0;
  const std::size_t dim_v = static_cast<std::size_t>(args.v.shape[3]);
  const auto compare = [&worst](Real got, Real want) {
    if (got == want) return;  // infinities included
    const Real error = std::fabs(got - want) / std::max<Real>(1, std::fabs(want));
    worst = std::isnan(error) ? 1e9 : std::max(worst, static_cast<double>(error));
  };
  for (std::int64_t b = 0; b < args.q.shape[0]; ++b) {
    for (std::int64_t h = 0; h < args.q.shape[1]; ++h) {
      for (std::int64_t i = 0; i < args.q.shape[2]; ++i, ++position) {
        const NaiveRow row = naive_row(args, b, h, i);
        compare(result.lse[position], row.lse);
        compare(result.row_max[position], row.max);
        for (std::size_t d = 0; d < dim_v; ++d) {
          compare(result.out[position * dim_v + d], row.out[d]);
        }
      }
    }
  }
  return worst;
}

void compare_with_naive(const ProblemSpec& spec) {
  CAPTURE(instance::describe(spec));
  const HostProblem problem(spec, 2);
  const ForwardArgs args = problem.args();
  const ForwardResult exact = forward(args, Arithmetic::kExact, Rows::every(), 2);
  // fp64 noise of scores up to 1e4 in size; anything wrong is of order 1.
  CHECK(worst_error(args, exact) < 1e-11);
  const ForwardResult rounded = forward(args, Arithmetic::kRounded, Rows::every(), 2);
  const double limit = spec.bias_kind == BiasKind::kNormal ? 8 : 64;
  CHECK(worst_error(args, rounded) < limit * unit_roundoff(spec.dtype));
}

TEST_CASE("random problems agree with a loop over the formulas") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    compare_with_naive(random_spec(seed));
  }
}

TEST_CASE("every mask kind and every bias kind agrees with the loop") {
  ProblemSpec spec;
  spec.batch = 2;
  spec.heads_q = 2;
  spec.seqlen_q = 140;
  spec.seqlen_kv = 270;
  spec.head_dim = 5;
  for (std::size_t kind = 0; kind < kMaskKindNames.size(); ++kind) {
    spec.mask = "bhqk";
    spec.mask_kind = static_cast<MaskKind>(kind);
    compare_with_naive(spec);
  }
  spec.mask.clear();
  for (std::size_t kind = 0; kind < kBiasKindNames.size(); ++kind) {
    spec.bias = "1hqk";
    spec.bias_kind = static_cast<BiasKind>(kind);
    compare_with_naive(spec);
  }
}

TEST_CASE("planes that repeat agree with the loop") {
  ProblemSpec spec{.batch = 24, .heads_q = 2, .seqlen_q = 5, .seqlen_kv = 9, .head_dim = 4};
  for (const char* planes : {"/4x1", "/4x3", "/12x1x3", "/6x2x2", "/4x2x4", "/8x3", "/4x2x1"}) {
    spec.mask = std::string("p1qk") + planes;
    spec.bias = std::string("ph1k") + planes;
    compare_with_naive(spec);
  }
}

TEST_CASE("windows: all small sides and both diagonals agree with the loop") {
  ProblemSpec spec;
  spec.head_dim = 4;
  for (const auto& [rows, keys] : {std::pair{9, 5}, {5, 9}, {7, 7}}) {
    for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
      for (std::int64_t left = -1; left <= 10; left += 3) {
        for (std::int64_t right = -1; right <= 10; right += 3) {
          spec.seqlen_q = rows;
          spec.seqlen_kv = keys;
          spec.diagonal = diagonal;
          spec.window = {left, right};
          spec.causal = left % 2 == 0;
          compare_with_naive(spec);
        }
      }
    }
  }
  // Past every key, but not so far that the loop above overflows.
  spec.window = {std::numeric_limits<std::int64_t>::max() / 2,
                 std::numeric_limits<std::int64_t>::max() / 2};
  compare_with_naive(spec);
}

TEST_CASE("the rounded arithmetic is off by its roundings, no less and no more") {
  ProblemSpec spec;
  spec.heads_q = 2;
  spec.seqlen_q = 200;
  spec.seqlen_kv = 500;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    spec.dtype = dtype;
    const HostProblem problem(spec, 2);
    const ForwardArgs args = problem.args();
    const ForwardResult exact = forward(args, Arithmetic::kExact, Rows::every(), 2);
    const ForwardResult rounded = forward(args, Arithmetic::kRounded, Rows::every(), 2);
    double error = 0;
    double magnitude = 0;
    int unrounded = 0;
    for (std::size_t i = 0; i < exact.out.size(); ++i) {
      error = std::max(error, std::fabs(exact.out[i] - rounded.out[i]));
      magnitude = std::max(magnitude, std::fabs(exact.out[i]));
      unrounded += rounded.out[i] != round_to(dtype, rounded.out[i]);
    }
    CHECK(unrounded == 0);
    CHECK(error > 0.1 * unit_roundoff(dtype) * magnitude);
    CHECK(error < 2 * unit_roundoff(dtype) * magnitude);
    double lse_error = 0;
    for (std::size_t i = 0; i < exact.lse.size(); ++i) {
      lse_error = std::max(lse_error, std::fabs(exact.lse[i] - rounded.lse[i]));
    }
    CHECK(lse_error < 1e-5);
  }
}

TEST_CASE("the result does not depend on the number of threads") {
  ProblemSpec spec;
  spec.batch = 2;
  spec.heads_q = 3;
  spec.heads_kv = 3;
  spec.seqlen_q = 150;
  spec.mask = "bhqk";
  const HostProblem problem(spec, 1);
  const ForwardResult one = forward(problem.args(), Arithmetic::kRounded, Rows::every(), 1);
  const ForwardResult many = forward(problem.args(), Arithmetic::kRounded, Rows::every(), 7);
  CHECK(one.out == many.out);
  CHECK(one.lse == many.lse);
}

}  // namespace
}  // namespace attnjit::reference::reference_naive_test
