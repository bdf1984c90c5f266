#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/backward.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {

/// `value` rounded to `dtype` in the rounded arithmetic, for which fp32 stands; itself in fp64.
template <typename Real>
Real round_if_rounded(DType dtype, Real value) {
  constexpr bool kRounds = sizeof(Real) == sizeof(float);
  return kRounds ? static_cast<Real>(tensor::round_to(dtype, value)) : value;
}

/// A gradient while it is summed: some of its rows, and the squares of their terms.
template <typename Real>
struct GradientSums {
  GradientSums(std::int64_t rows, std::int64_t row_width)
      : width(row_width),
        values(static_cast<std::size_t>(rows * row_width)),
        squares(static_cast<std::size_t>(rows)) {}

  Real* row(std::int64_t index) { return values.data() + index * width; }

  /// Writes `factor` times the first `rows` rows, without their padding, as rows of `to` from
  /// `first` on, rounded to `dtype` where the arithmetic rounds.
  void write(Real factor, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t first,
             Gradient& to) const {
    write_values(factor, dtype, rows, columns, first, to.values);
    for (std::int64_t r = 0; r < rows; ++r) {
      to.terms[first + r] = std::fabs(factor) * std::sqrt(squares[r]);
    }
  }

  /// The values alone.
  void write_values(Real factor, DType dtype, std::int64_t rows, std::int64_t columns,
                    std::int64_t first, std::vector<double>& to) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      double* out = to.data() + (first + r) * columns;
      for (std::int64_t d = 0; d < columns; ++d) {
        out[d] = round_if_rounded(dtype, factor * values[r * width + d]);
      }
    }
  }

  std::int64_t width;         ///< of a row, padding included
  std::vector<Real> values;   ///< [rows, width]
  std::vector<Real> squares;  ///< [rows]
};

}  // namespace attnjit::reference
