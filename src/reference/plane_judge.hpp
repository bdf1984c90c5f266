#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "attnjit/tensor.hpp"
#include "reference/rows.hpp"

namespace attnjit::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// error / allowed: 0 when neither is there, infinity for an error where none is allowed.
double ratio_of(double error, double allowed);

/// One judged element: where, and what.
struct Sample {
  std::int64_t row = 0;
  std::int64_t column = 0;
  double got = 0;
  double want = 0;
};

/// The errors of one (batch, head) plane.
struct PlaneErrors {
  double error = 0;          ///< max|x - ref|; infinite if x is NaN somewhere
  double rounded_error = 0;  ///< max|y - ref|
  double magnitude = 0;      ///< max|ref|
  double noise = 0;          ///< of the worst row
  double row_ratio = 0;      ///< of the worst row
  std::int64_t worst_row = -1;
  std::int64_t rows_failed = 0;
  std::int64_t judged = 0;
  double squares = 0, rounded_squares = 0;  ///< sums of (x - ref)^2 and (y - ref)^2
  std::int64_t not_finite = 0;              ///< elements of x where the reference is finite
};

/// The values that the rule measures one plane with.
struct PlaneReference {
  const double* exact;                 ///< [rows, got.shape[3]], dense
  const double* rounded;               ///< of the same shape
  double unit;                         ///< the u of the rule
  std::span<const double> noise = {};  ///< [rows], the error that a row is allowed on top; or none
  const double* sizes = nullptr;       ///< as `exact`: of what is summed in each element; or null
  double smallest = 0;                 ///< number of got.dtype above 0, where that may matter
};

/// Applies the accuracy rule to one plane of `got`, whose elements start at `offset`.
class PlaneJudge {
 public:
  PlaneJudge(const Tensor& got, std::int64_t offset, const PlaneReference& reference,
             const Rows& rows);

  PlaneErrors measure() const;

  /// The largest error that the rule of the plane allows.
  double allowance(const PlaneErrors& plane) const;

  /// The rows that break the rule of rows, or have an element that breaks that of the plane.
  std::vector<std::int64_t> wrong_rows(const PlaneErrors& plane) const;

  /// The first element that breaks the rule of the plane, else the worst one of the worst row.
  Sample blame(const PlaneErrors& plane) const;

 private:
  std::int64_t dense(std::int64_t row, std::int64_t column) const;
  bool judged(std::int64_t row, std::int64_t column) const;
  Sample at(std::int64_t row, std::int64_t column) const;
  double measure_row(std::int64_t row, PlaneErrors& plane) const;
  double component_ratio(std::int64_t row) const;

  const Tensor& got_;
  const std::int64_t offset_;
  const PlaneReference reference_;
  const Rows& rows_;
};

}  // namespace attnjit::reference
