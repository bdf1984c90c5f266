#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "instance/host_problem.hpp"
#include "reference/accuracy.hpp"
#include "reference/forward.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

using instance::BufferRole;
using instance::HostProblem;
using instance::Layout;
using instance::ProblemSpec;
using tensor::load;
using tensor::MaskKind;
using tensor::store;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ProblemSpec small_spec() {
  ProblemSpec spec;
  spec.batch = 2;
  spec.heads_q = 4;
  spec.heads_kv = 2;
  spec.seqlen_q = 70;
  spec.seqlen_kv = 90;
  spec.head_dim = 32;
  spec.head_dim_v = 24;
  spec.mask = "b1qk";
  spec.mask_kind = MaskKind::kDeadRows;
  spec.memory.layout = Layout::kBshd;
  spec.memory.row_padding = 3;
  return spec;
}

// A problem with both references, whose out and lse hold the rounded result, as a good kernel
// leaves them.
struct Solved {
  explicit Solved(const ProblemSpec& spec, const Rows& selected = Rows::every())
      : problem(spec, 2),
        rows(selected),
        exact(forward(problem.args(), Arithmetic::kExact, rows, 2)),
        rounded(forward(problem.args(), Arithmetic::kRounded, rows, 2)),
        out(problem.args().out),
        lse(problem.args().lse) {
    problem.poison_outputs();
    std::size_t at = 0;
    std::size_t row_at = 0;
    for (std::int64_t b = 0; b < out.shape[0]; ++b) {
      for (std::int64_t h = 0; h < out.shape[1]; ++h) {
        for (std::int64_t r = 0; r < rows.count(out.shape[2]); ++r) {
          lse[(b * out.shape[1] + h) * out.shape[2] + rows.at(r)] =
              static_cast<float>(rounded.lse[row_at++]);
          for (std::int64_t d = 0; d < out.shape[3]; ++d) {
            store(out.data, out.dtype, index(b, h, rows.at(r), d), rounded.out[at++]);
          }
        }
      }
    }
  }

  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) const {
    return b * out.strides[0] + h * out.strides[1] + i * out.strides[2] + d * out.strides[3];
  }
  void set(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d, double value) {
    store(out.data, out.dtype, index(b, h, i, d), value);
  }
  double get(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) const {
    return load(out.data, out.dtype, index(b, h, i, d));
  }
  Report judge() const { return check_output(out, exact.out, rounded.out, rows); }
  Report judge_lse() const {
    return check_lse(lse, {out.shape[0], out.shape[1], out.shape[2]}, exact.lse, rows);
  }

  HostProblem problem;
  Rows rows;
  ForwardResult exact;
  ForwardResult rounded;
  Tensor out;
  float* lse;
};

TEST_CASE("the rounded result passes, for both dtypes") {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    ProblemSpec spec = small_spec();
    spec.dtype = dtype;
    const Solved solved(spec);
    const Report report = solved.judge();
    CHECK(report.pass);
    CHECK(report.text.empty());
    CHECK(report.planes == 8);
    CHECK(report.elements_judged == 2 * 4 * 70 * 24);
    CHECK(report.worst_ratio > 0.05);
    CHECK(report.worst_ratio < 0.6);  // it is within half of its own error
    CHECK(solved.judge_lse().pass);
    CHECK(solved.problem.check_guards() == "");
    CHECK(solved.problem.check_written() == "");
  }
}

TEST_CASE("a wrong head is found and named") {
  Solved solved(small_spec());
  for (std::int64_t i = 0; i < 70; ++i) {
    for (std::int64_t d = 0; d < 24; ++d) {
      solved.set(1, 2, i, d, solved.get(1, 3, i, d));
    }
  }
  const Report report = solved.judge();
  CHECK_FALSE(report.pass);
  CHECK(report.planes_failed == 1);
  CHECK(report.text.starts_with("batch 1 head 2: "));
  CHECK(report.worst_ratio > 10);
}

TEST_CASE("two rows that changed places are found") {
  Solved solved(small_spec());
  for (std::int64_t d = 0; d < 24; ++d) {
    const double first = solved.get(0, 1, 10, d);
    solved.set(0, 1, 10, d, solved.get(0, 1, 11, d));
    solved.set(0, 1, 11, d, first);
  }
  const Report report = solved.judge();
  CHECK(report.planes_failed == 1);
  CHECK(report.text.find("2 rows fail") != std::string::npos);
  CHECK(report.text.find("at row 10 ") != std::string::npos);
}

TEST_CASE("a row that is small beside its plane is held to its own size") {
  Solved solved(small_spec());
  // Shrink one row of the references and of the result; then get it wrong by all of its size,
  // which is little in the plane.
  for (std::size_t d = 0; d < 24; ++d) {
    const std::size_t at = 10 * 24 + d;
    solved.exact.out[at] *= 0x1p-20;
    solved.rounded.out[at] *= 0x1p-20;
    solved.set(0, 0, 10, static_cast<std::int64_t>(d), solved.rounded.out[at]);
  }
  CHECK(solved.judge().pass);
  for (std::int64_t d = 0; d < 24; ++d) {
    solved.set(0, 0, 10, d, 0);
  }
  const Report report = solved.judge();
  CHECK_FALSE(report.pass);
  CHECK(report.text.find("1 rows fail") != std::string::npos);
  CHECK(report.text.find("at row 10 ") != std::string::npos);
}

TEST_CASE("what lies below 2^-126 may be 0, but a row of zeros is exactly that") {
  const auto passes = [](double got, double want) {
    std::vector<std::uint16_t> row(8);
    const Tensor tensor = Tensor::contiguous(row.data(), DType::kBFloat16, {1, 1, 1, 8});
    for (std::int64_t i = 0; i < 8; ++i) store(tensor.data, tensor.dtype, i, got);
    const std::vector<double> reference(8, want);
    return check_output(tensor, reference, reference, Rows::every()).pass;
  };
  CHECK(passes(0, 0x1p-130));
  CHECK_FALSE(passes(0, 0x1p-120));
  CHECK_FALSE(passes(0x1p-130, 0));
}

TEST_CASE("a gradient may lack what probabilities below 2^-126 contribute") {
  // Of one row whose scores fall by 1 a key: p of key 119 - d is exp(-d - 0.46), 2^-126 at d
  // = 86.9.
  ProblemSpec spec{.seqlen_q = 1, .seqlen_kv = 120, .head_dim = 8, .alibi = "h", .slopes = {1}};
  spec.scale = 0;
  spec.diagonal = Diagonal::kBottomRight;
  spec.backward = true;
  const HostProblem problem(spec, 1);
  const BackwardArgs args = problem.backward_args();
  const Planes planes = Planes::every();
  const Gradient exact = backward(args, Arithmetic::kExact, planes, 1).dv;
  const Gradient rounded = backward(args, Arithmetic::kRounded, planes, 1).dv;
  const auto passes_without = [&](std::int64_t keys) {
    std::vector<double> values = rounded.values;
    std::fill_n(values.begin(), keys * spec.head_dim, 0.0);
    tensor::store_dense(args.dv, values);
    return check_gradient(args.dv, spec.dtype, exact, rounded).pass;
  };
  CHECK(passes_without(119 - 87 + 1));
  CHECK_FALSE(passes_without(119 - 84 + 1));
}

TEST_CASE("dq may lack what slopes of a softcap below 2^-126 weigh") {
  // Rows of one key, whose scores rise by 1 a row: that of row 43 has a slope of 2^-122.07, that of
  // row 45 one of 2^-127.8. The key is so large that dq is not below 2^-126 there.
  ProblemSpec spec{.seqlen_q = 60, .seqlen_kv = 1, .head_dim = 8};
  spec.scale = spec.softcap = 1;
  spec.backward = spec.want_dlse = true;
  const HostProblem problem(spec, 1);
  const BackwardArgs args = problem.backward_args();
  for (std::int64_t d = 0; d < 8; ++d) {
    store(args.forward.k.data, spec.dtype, d, d == 0 ? 0x1p16 : 0);
    for (std::int64_t row = 0; row < 60; ++row) {
      store(args.forward.q.data, spec.dtype, row * 8 + d,
            d == 0 ? 0x1p-16 * static_cast<double>(row) : 0);
      store(args.dout.data, spec.dtype, row * 8 + d, 1);
    }
  }
  const Gradient exact = backward(args, Arithmetic::kExact, Planes::every(), 1).dq;
  const Gradient rounded = backward(args, Arithmetic::kRounded, Planes::every(), 1).dq;
  const auto passes_without = [&](std::int64_t first) {
    std::vector<double> values = rounded.values;
    std::fill(values.begin() + first * 8, values.end(), 0.0);
    tensor::store_dense(args.dq, values);
    return check_gradient(args.dq, spec.dtype, exact, rounded).pass;
  };
  CHECK(passes_without(45));
  CHECK_FALSE(passes_without(43));
}

TEST_CASE("NaN, an unwritten element and a dead row that is not 0 fail") {
  Solved solved(small_spec());
  SUBCASE("NaN") { solved.set(1, 3, 69, 23, std::nan("")); }
  SUBCASE("infinity") { solved.set(1, 3, 69, 23, -kInfinity); }
  SUBCASE("unwritten") {
    const Solved fresh(small_spec());
    solved.problem.poison_outputs();
    const std::int64_t last = solved.index(1, 3, 69, 23);
    const auto poison = static_cast<const std::uint16_t*>(solved.out.data)[last];
    auto* out = static_cast<std::uint16_t*>(solved.out.data);
    std::memcpy(out, fresh.out.data, static_cast<std::size_t>(last) * 2);
    CHECK(out[last] == poison);
    CHECK(solved.problem.find(BufferRole::kOut)->check_written() ==
          "out: 1 elements were never written, the first [1, 3, 69, 23]");
  }
  SUBCASE("dead row") {
    CHECK(solved.exact.lse[3 * 70 + 2] == -kInfinity);
    solved.set(0, 3, 2, 0, 1e-30);
  }
  const Report report = solved.judge();
  CHECK_FALSE(report.pass);
  CHECK(report.planes_failed == 1);
  CHECK(report.worst_ratio == kInfinity);
}

TEST_CASE("elements whose reference is not finite are not judged") {
  Solved solved(small_spec());
  const std::size_t at = (3 * 70 + 5) * 24 + 7;
  solved.exact.out[at] = std::nan("");
  solved.set(0, 3, 5, 7, 123);
  const Report report = solved.judge();
  CHECK(report.pass);
  CHECK(report.elements_judged == 2 * 4 * 70 * 24 - 1);
}

TEST_CASE("only selected rows are judged") {
  Solved solved(small_spec(), Rows::only({0, 13, 69}));
  CHECK(solved.judge().pass);
  CHECK(solved.judge().elements_judged == 2 * 4 * 3 * 24);
  CHECK(solved.judge_lse().pass);
  solved.set(1, 0, 13, 0, 9);
  CHECK(solved.judge().text.find("at row 13 column 0 got 9 ") != std::string::npos);
}

TEST_CASE("a reference of the wrong size is an error, not a read past its end") {
  const Solved solved(small_spec());
  CHECK_FALSE(check_output(solved.out, solved.exact.out, solved.rounded.out, Rows::only({1})).pass);
}

TEST_CASE("lse is held to a relative 1e-4 and to an exact -inf") {
  const std::vector<double> exact = {0.5, -200, -kInfinity, std::nan("")};
  const std::array<std::int64_t, 3> shape = {1, 2, 2};
  const auto judge = [&](float a, float b, float c, float d) {
    const float got[] = {a, b, c, d};
    return check_lse(got, shape, exact, Rows::every());
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(judge(0.50009f, -200.019f, -infinity, 77).pass);
  CHECK_FALSE(judge(0.50011f, -200, -infinity, 0).pass);
  CHECK_FALSE(judge(0.5f, -200.021f, -infinity, 0).pass);
  CHECK_FALSE(judge(0.5f, -200, -3e38f, 0).pass);
  CHECK_FALSE(judge(0.5f, -infinity, -infinity, 0).pass);
  const Report report = judge(0.5f, std::nanf(""), -infinity, 0);
  CHECK(report.text.starts_with("batch 0 head 0: lse of 1 rows fails"));
  CHECK(report.text.find("at row 1 got nan want -200") != std::string::npos);
}

TEST_CASE("lse may be off by what fp32 leaves of the largest products") {
  const std::vector<double> exact = {2, -200}, errors = {0, 5};
  const auto passes = [&](float a, float b) {
    const float got[] = {a, b};
    return check_lse(got, {1, 1, 2}, exact, Rows::every(), "lse", errors).pass &&
           check_max_logits(got, {1, 2, 1}, exact, Rows::every(), errors).pass;
  };
  CHECK(passes(2, -195.1f));
  CHECK(passes(2, -205.01f));
  CHECK_FALSE(passes(2, -194.9f));
  CHECK_FALSE(passes(2.001f, -200));
}

TEST_CASE("the reference says what fp32 leaves of a row's scores") {
  ProblemSpec spec = small_spec();
  spec.query_stddev = 1e9;
  spec.mask = "";
  spec.scale = 0.5f;
  const Solved solved(spec);
  const ForwardArgs args = solved.problem.args();
  const auto norm = [](const Tensor& t, std::int64_t b, std::int64_t h, std::int64_t row) {
    double square = 0;
    for (std::int64_t d = 0; d < t.shape[3]; ++d) {
      const double x =
          load(t.data, t.dtype, b * t.strides[0] + h * t.strides[1] + row * t.strides[2] + d);
      square += x * x;
    }
    return std::sqrt(square);
  };
  double largest = 0;
  for (std::int64_t key = 0; key < args.k.shape[2]; ++key) {
    largest = std::max(largest, norm(args.k, 0, 0, key));
  }
  CHECK(solved.exact.score_errors[3] ==
        doctest::Approx(0x1p-22 * 0.5 * norm(args.q, 0, 0, 3) * largest));
}

TEST_CASE("largest scores of heads are held to those of rows, or from below to those of some") {
  // Two batch elements, three heads, two rows.
  const std::vector<double> exact = {1,          7, -kInfinity, -kInfinity, 0, std::nan(""),
                                     -kInfinity, 3, -kInfinity, -kInfinity, 0, 5};
  const std::array<std::int64_t, 3> shape = {2, 3, 2};
  const auto judge = [&](float a, float b, float c) {
    const float got[] = {a, b, c};
    return check_max_logits(got, shape, exact, Rows::every()).pass;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(judge(7.0006f, -infinity, -99));
  CHECK_FALSE(judge(7.0008f, -infinity, 5));
  CHECK_FALSE(judge(3, -infinity, 5));
  CHECK_FALSE(judge(7, -3e38f, 5));
  const auto judge_some = [&](float got) {
    const std::vector<double> row = {7};
    return check_max_logits(&got, {1, 1, 2}, row, Rows::only({0})).pass;
  };
  CHECK(judge_some(7));
  CHECK(judge_some(9));
  CHECK_FALSE(judge_some(6));
}

TEST_CASE("many failing planes end in a count") {
  ProblemSpec spec = small_spec();
  spec.heads_q = 40;
  Solved solved(spec);
  solved.problem.poison_outputs();
  const Report report = solved.judge();
  CHECK(report.planes_failed == 80);
  CHECK(std::count(report.text.begin(), report.text.end(), '\n') == 17);
  CHECK(report.text.find("80 of 80") != std::string::npos);
}

}  // namespace
}  // namespace attnjit::reference
