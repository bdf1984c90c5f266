#include "reference/accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "reference/plane_judge.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

constexpr std::int64_t kMostLines = 16;
constexpr double kLseTolerance = 1e-4;
constexpr double kSmallestHalf = 0x1p-24;

void add_failure(Report& report, const std::string& line) {
  report.pass = false;
  ++report.planes_failed;
  if (report.planes_failed <= kMostLines) {
    report.text += line + "\n";
  }
}

void finish(Report& report) {
  if (report.planes_failed > kMostLines) {
    report.text += fmt::format("... {} of {} (batch, head) planes failed\n", report.planes_failed,
                               report.planes);
  }
}

// The errors of one plane of lse.
struct LseErrors {
  double ratio = 0;
  double error = 0;
  std::int64_t judged = 0;
  std::vector<std::int64_t> failed;  // rows
  Sample first;                      // the first of them
};

// NaN = the row is not judged.
double lse_ratio(double got, double want, double score_error) {
  if (std::isnan(want) || want == kInfinity) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (want == -kInfinity) {
    return got == -kInfinity ? 0 : kInfinity;
  }
  const double error = std::fabs(got - want);
  return std::isnan(error) ? kInfinity
                           : error / (kLseTolerance * std::max(1.0, std::fabs(want)) + score_error);
}

// `score_errors`: null for none.
LseErrors measure_lse(const float* got, const double* exact, const double* score_errors,
                      std::int64_t seqlen_q, const Rows& rows) {
  LseErrors plane;
  for (std::int64_t row = 0; row < rows.count(seqlen_q); ++row) {
    const Sample sample{rows.at(row), 0, got[rows.at(row)], exact[row]};
    const double ratio =
        lse_ratio(sample.got, sample.want, score_errors == nullptr ? 0 : score_errors[row]);
    if (std::isnan(ratio)) {
      continue;
    }
    ++plane.judged;
    plane.ratio = std::max(plane.ratio, ratio);
    if (ratio > 0) {
      const double error = std::fabs(sample.got - sample.want);
      plane.error = std::max(plane.error, std::isnan(error) ? kInfinity : error);
    }
    if (ratio > 1) {
      if (plane.failed.empty()) plane.first = sample;
      plane.failed.push_back(sample.row);
    }
  }
  return plane;
}

// `noise` is empty or [planes, rows], `sizes` empty or as `exact`; `unit` is the u of the rule.
Report check_planes(const Tensor& got, const std::vector<double>& exact,
                    const std::vector<double>& rounded, std::span<const double> noise,
                    std::span<const double> sizes, double unit, const Rows& rows) {
  Report report;
  const std::int64_t count = rows.count(got.shape[2]);
  const std::int64_t plane_size = count * got.shape[3];
  const std::int64_t planes = got.shape[0] * got.shape[1];
  const auto needed = static_cast<std::size_t>(planes * plane_size);
  if (exact.size() != needed || rounded.size() != needed) {
    add_failure(report, fmt::format("the reference holds {} and {} elements; expected {}",
                                    exact.size(), rounded.size(), needed));
    return report;
  }
  double squares = 0, rounded_squares = 0;
  for (std::int64_t index = 0; index < planes; ++index) {
    const std::int64_t batch = index / got.shape[1];
    const std::int64_t head = index % got.shape[1];
    PlaneReference reference{exact.data() + index * plane_size, rounded.data() + index * plane_size,
                             unit};
    if (!noise.empty()) {
      reference.noise =
          noise.subspan(static_cast<std::size_t>(index * count), static_cast<std::size_t>(count));
    }
    if (!sizes.empty()) {
      reference.sizes = sizes.data() + index * plane_size;
      reference.smallest = got.dtype == DType::kFloat16 ? kSmallestHalf : 0;
    }
    const PlaneJudge judge(got, batch * got.strides[0] + head * got.strides[1], reference, rows);
    const PlaneErrors plane = judge.measure();
    const double allowed = judge.allowance(plane);
    const double ratio = std::max(ratio_of(plane.error, allowed), plane.row_ratio);
    report.planes += plane.judged > 0 ? 1 : 0;
    report.elements_judged += plane.judged;
    report.worst_ratio = std::max(report.worst_ratio, ratio);
    report.max_abs_error = std::max(report.max_abs_error, plane.error);
    squares += plane.squares;
    rounded_squares += plane.rounded_squares;
    if (ratio > 1) {
      const Sample bad = judge.blame(plane);
      report.wrong.push_back({batch, head, judge.wrong_rows(plane)});
      add_failure(report,
                  fmt::format("batch {} head {}: max error {:.4g} (allowed {:.4g}), {} rows fail "
                              "(worst {:.3g} times its allowance), {} not finite; at row {} "
                              "column {} got {:.9g} want {:.9g}",
                              batch, head, plane.error, allowed, plane.rows_failed, plane.row_ratio,
                              plane.not_finite, bad.row, bad.column, bad.got, bad.want));
    }
  }
  report.rms_ratio = ratio_of(std::sqrt(squares), std::sqrt(rounded_squares));
  finish(report);
  return report;
}

}  // namespace

Report check_output(const Tensor& got, const std::vector<double>& exact,
                    const std::vector<double>& rounded, const Rows& rows) {
  return check_planes(got, exact, rounded, {}, {}, tensor::unit_roundoff(got.dtype), rows);
}

Report check_gradient(const Tensor& got, DType dtype, const Gradient& exact,
                      const Gradient& rounded) {
  std::vector<double> noise;
  for (const double terms : exact.terms) {
    noise.push_back(std::isfinite(terms) ? kTermTolerance * terms : 0);
  }
  return check_planes(got, exact.values, rounded.values, noise, exact.sizes,
                      tensor::unit_roundoff(dtype), Rows::every());
}

Report check_lse(const float* got, const std::array<std::int64_t, 3>& shape,
                 const std::vector<double>& exact, const Rows& rows, std::string_view name,
                 const std::vector<double>& score_errors) {
  Report report;
  const auto [batch, heads, seqlen_q] = shape;
  const std::int64_t count = rows.count(seqlen_q);
  const auto needed = static_cast<std::size_t>(batch * heads * count);
  if (exact.size() != needed) {
    add_failure(report,
                fmt::format("the reference holds {} rows; expected {}", exact.size(), needed));
    return report;
  }
  for (std::int64_t index = 0; index < batch * heads; ++index) {
    const LseErrors plane = measure_lse(
        got + index * seqlen_q, exact.data() + index * count,
        score_errors.empty() ? nullptr : score_errors.data() + index * count, seqlen_q, rows);
    ++report.planes;
    report.elements_judged += plane.judged;
    report.worst_ratio = std::max(report.worst_ratio, plane.ratio);
    report.max_abs_error = std::max(report.max_abs_error, plane.error);
    if (!plane.failed.empty()) {
      report.wrong.push_back({index / heads, index % heads, plane.failed});
      add_failure(report,
                  fmt::format("batch {} head {}: {} of {} rows fails, worst {:.3g} times its "
                              "allowance; at row {} got {:.9g} want {:.9g}",
                              index / heads, index % heads, name, plane.failed.size(), plane.ratio,
                              plane.first.row, plane.first.got, plane.first.want));
    }
  }
  finish(report);
  return report;
}

Report check_max_logits(const float* got, const std::array<std::int64_t, 3>& shape,
                        const std::vector<double>& exact, const Rows& rows,
                        const std::vector<double>& score_errors) {
  const auto [batch, heads, seqlen_q] = shape;
  const std::int64_t count = rows.count(seqlen_q);
  std::vector<double> want(static_cast<std::size_t>(heads), -kInfinity), errors(want.size());
  for (std::size_t row = 0; row < exact.size(); ++row) {
    const std::size_t head = row / static_cast<std::size_t>(count) % want.size();
    if (exact[row] > want[head] || std::isnan(exact[row])) want[head] = exact[row];
    if (!score_errors.empty()) errors[head] = std::max(errors[head], score_errors[row]);
  }
  for (std::size_t head = 0; !rows.all && head < want.size(); ++head) {
    if (got[head] > want[head]) want[head] = got[head];
  }
  return check_lse(got, {1, heads, 1}, want, Rows::every(), "max_logits", errors);
}

}  // namespace attnjit::reference
