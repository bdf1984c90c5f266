#include "reference/plane_judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/backward.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

double error_of(double got, double want) {
  const double error = std::fabs(got - want);
  return std::isnan(error) ? kInfinity : error;
}

// A Euclidean norm, scaled by its largest term: squares of bf16 values can overflow or vanish.
class Norm {
 public:
  void add(double value) {
    const double size = std::fabs(value);
    if (size == 0 || std::isinf(scale_)) {
      return;
    }
    if (size > scale_) {
      const double shrink = std::isinf(size) ? 0 : scale_ / size;
      squares_ = squares_ * shrink * shrink + 1;
      scale_ = size;
    } else {
      squares_ += size / scale_ * (size / scale_);
    }
  }
  double value() const { return scale_ * std::sqrt(squares_); }

 private:
  double scale_ = 0;
  double squares_ = 0;
};

}  // namespace

double ratio_of(double error, double allowed) {
  if (allowed > 0) {
    return error / allowed;
  }
  return error > 0 ? kInfinity : 0;
}

PlaneJudge::PlaneJudge(const Tensor& got, std::int64_t offset, const PlaneReference& reference,
                       const Rows& rows)
    : got_(got), offset_(offset), reference_(reference), rows_(rows) {}

PlaneErrors PlaneJudge::measure() const {
  PlaneErrors plane;
  for (std::int64_t row = 0; row < rows_.count(got_.shape[2]); ++row) {
    measure_row(row, plane);
  }
  return plane;
}

double PlaneJudge::allowance(const PlaneErrors& plane) const {
  return 2 * plane.rounded_error + 2 * reference_.unit * plane.magnitude + plane.noise;
}

std::vector<std::int64_t> PlaneJudge::wrong_rows(const PlaneErrors& plane) const {
  std::vector<std::int64_t> wrong;
  const double allowed = allowance(plane);
  for (std::int64_t row = 0; row < rows_.count(got_.shape[2]); ++row) {
    PlaneErrors alone;
    const double ratio = measure_row(row, alone);
    if (ratio > 1 || alone.error > allowed) wrong.push_back(rows_.at(row));
  }
  return wrong;
}

Sample PlaneJudge::blame(const PlaneErrors& plane) const {
  Sample worst;
  double worst_error = -1;
  for (std::int64_t row = 0; row < rows_.count(got_.shape[2]); ++row) {
    for (std::int64_t column = 0; column < got_.shape[3]; ++column) {
      if (!judged(row, column)) {
        continue;
      }
      const Sample sample = at(row, column);
      const double error = error_of(sample.got, sample.want);
      if (error > allowance(plane)) {
        return sample;
      }
      if (row == plane.worst_row && error > worst_error) {
        worst_error = error;
        worst = sample;
      }
    }
  }
  return worst;
}

std::int64_t PlaneJudge::dense(std::int64_t row, std::int64_t column) const {
  return row * got_.shape[3] + column;
}

bool PlaneJudge::judged(std::int64_t row, std::int64_t column) const {
  const std::int64_t index = dense(row, column);
  return std::isfinite(reference_.exact[index]) && std::isfinite(reference_.rounded[index]);
}

Sample PlaneJudge::at(std::int64_t row, std::int64_t column) const {
  const std::int64_t query = rows_.at(row);
  const std::int64_t index = offset_ + query * got_.strides[2] + column * got_.strides[3];
  return {query, column, tensor::load(got_.data, got_.dtype, index),
          reference_.exact[dense(row, column)]};
}

// The worst element of a row by the rule for elements.
double PlaneJudge::component_ratio(std::int64_t row) const {
  if (reference_.sizes == nullptr) return 0;
  const auto each_judged = [&](auto visit) {
    for (std::int64_t column = 0; column < got_.shape[3]; ++column) {
      if (judged(row, column)) visit(column, reference_.sizes[dense(row, column)]);
    }
  };
  double rounded = 0;  // |y - ref| by size, the largest of the row
  each_judged([&](std::int64_t column, double size) {
    const std::int64_t index = dense(row, column);
    const double error = std::fabs(reference_.rounded[index] - reference_.exact[index]);
    if (size > 0 && error > reference_.smallest) rounded = std::max(rounded, error / size);
  });
  double worst = 0;
  each_judged([&](std::int64_t column, double size) {
    const Sample sample = at(row, column);
    const double allowed = 4 * (rounded + reference_.unit) * size + reference_.smallest;
    worst = std::max(worst, ratio_of(error_of(sample.got, sample.want), allowed));
  });
  return worst;
}

// Adds a row to `plane`; the ratio of the rule of rows.
double PlaneJudge::measure_row(std::int64_t row, PlaneErrors& plane) const {
  Norm error, rounded_error, magnitude;
  for (std::int64_t column = 0; column < got_.shape[3]; ++column) {
    if (!judged(row, column)) {
      continue;
    }
    const Sample sample = at(row, column);
    const double off = error_of(sample.got, sample.want);
    const double rounded_off = reference_.rounded[dense(row, column)] - sample.want;
    error.add(off);
    rounded_error.add(rounded_off);
    magnitude.add(sample.want);
    plane.error = std::max(plane.error, off);
    plane.rounded_error = std::max(plane.rounded_error, std::fabs(rounded_off));
    plane.squares += off * off;
    plane.rounded_squares += rounded_off * rounded_off;
    plane.magnitude = std::max(plane.magnitude, std::fabs(sample.want));
    plane.not_finite += std::isfinite(sample.got) ? 0 : 1;
    ++plane.judged;
  }
  double noise = reference_.noise.empty() ? 0 : reference_.noise[row];
  if (magnitude.value() > 0)
    noise += kSmallestNormal * std::sqrt(static_cast<double>(got_.shape[3]));
  const double allowed =
      4 * rounded_error.value() + 4 * reference_.unit * magnitude.value() + noise;
  plane.noise = std::max(plane.noise, noise);
  const double ratio = std::max(ratio_of(error.value(), allowed), component_ratio(row));
  plane.rows_failed += ratio > 1 ? 1 : 0;
  if (ratio > plane.row_ratio) {
    plane.row_ratio = ratio;
    plane.worst_row = row;
  }
  return ratio;
}

}  // namespace attnjit::reference
