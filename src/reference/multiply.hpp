#pragma once
#include <cstdint>

namespace attnjit::reference {

/// Rows of a and c come in fours, columns of b and c in thirty-twos; callers pad with zeros.
inline constexpr std::int64_t kRowStep = 4;
inline constexpr std::int64_t kColumnStep = 32;

/// c [rows, columns] += a [rows, inner] * b [inner, columns], all dense and row-major.
/// Each element of c is summed in ascending order of the inner index, whatever the vector width.
void multiply_add(const double* a, const double* b, double* c, std::int64_t rows,
                  std::int64_t inner, std::int64_t columns);
void multiply_add(const float* a, const float* b, float* c, std::int64_t rows, std::int64_t inner,
                  std::int64_t columns);

/// The same, without the terms whose kept[row, inner] is 0, where a is 0 as well: b may then hold
/// anything, NaN included. A kept term follows IEEE rules, 0 * NaN too.
void multiply_add_kept(const double* a, const std::uint8_t* kept, const double* b, double* c,
                       std::int64_t rows, std::int64_t inner, std::int64_t columns);
void multiply_add_kept(const float* a, const std::uint8_t* kept, const float* b, float* c,
                       std::int64_t rows, std::int64_t inner, std::int64_t columns);

/// The square of the norm of a row.
template <typename Real>
Real square_of(const Real* row, std::int64_t size) {
  Real sum = 0;
  for (std::int64_t d = 0; d < size; ++d) sum += row[d] * row[d];
  return sum;
}

}  // namespace attnjit::reference
