#include "reference/multiply.hpp"

#include <cstring>

namespace attnjit::reference {
namespace {

// kRowStep rows times two vectors of kBytes stay in registers over the whole inner loop.
template <typename Real, int kBytes>
__attribute__((always_inline)) inline void multiply_step(const Real* a, const Real* b, Real* c,
                                                         std::int64_t inner, std::int64_t columns) {
  typedef Real Vector __attribute__((vector_size(kBytes)));
  constexpr std::int64_t kLanes = kBytes / sizeof(Real);
  Vector sum[kRowStep][2];
  for (int r = 0; r < kRowStep; ++r) {
    std::memcpy(&sum[r][0], c + r * columns, kBytes);
    std::memcpy(&sum[r][1], c + r * columns + kLanes, kBytes);
  }
  for (std::int64_t k = 0; k < inner; ++k) {
    Vector low, high;
    std::memcpy(&low, b + k * columns, kBytes);
    std::memcpy(&high, b + k * columns + kLanes, kBytes);
    for (int r = 0; r < kRowStep; ++r) {
      const Real factor = a[r * inner + k];
      sum[r][0] += factor * low;
      sum[r][1] += factor * high;
    }
  }
  for (int r = 0; r < kRowStep; ++r) {
    std::memcpy(c + r * columns, &sum[r][0], kBytes);
    std::memcpy(c + r * columns + kLanes, &sum[r][1], kBytes);
  }
}

template <typename Real, int kBytes>
__attribute__((always_inline)) inline void multiply_all(const Real* a, const Real* b, Real* c,
                                                        std::int64_t rows, std::int64_t inner,
                                                        std::int64_t columns) {
  constexpr std::int64_t kWidth = 2 * kBytes / static_cast<std::int64_t>(sizeof(Real));
  static_assert(kColumnStep % kWidth == 0);
  // Columns outside: the strip of b then stays in the first cache level for all rows.
  for (std::int64_t column = 0; column < columns; column += kWidth) {
    for (std::int64_t row = 0; row < rows; row += kRowStep) {
      multiply_step<Real, kBytes>(a + row * inner, b + column, c + row * columns + column, inner,
                                  columns);
    }
  }
}

#if defined(__x86_64__)
template <typename Real>
__attribute__((target("avx512f"))) void multiply_avx512(const Real* a, const Real* b, Real* c,
                                                        std::int64_t rows, std::int64_t inner,
                                                        std::int64_t columns) {
  multiply_all<Real, 64>(a, b, c, rows, inner, columns);
}

template <typename Real>
__attribute__((target("avx2"))) void multiply_avx2(const Real* a, const Real* b, Real* c,
                                                   std::int64_t rows, std::int64_t inner,
                                                   std::int64_t columns) {
  multiply_all<Real, 32>(a, b, c, rows, inner, columns);
}
#endif

template <typename Real>
void multiply_dispatch(const Real* a, const Real* b, Real* c, std::int64_t rows, std::int64_t inner,
                       std::int64_t columns) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return multiply_avx512(a, b, c, rows, inner, columns);
  }
  if (__builtin_cpu_supports("avx2")) {
    return multiply_avx2(a, b, c, rows, inner, columns);
  }
#endif
  multiply_all<Real, 16>(a, b, c, rows, inner, columns);
}

template <typename Real>
bool all_finite(const Real* values, std::int64_t count) {
  Real probe = 0;  // stays 0 unless a value is infinite or NaN
  for (std::int64_t i = 0; i < count; ++i) probe += values[i] * Real{0};
  return probe == 0;
}

template <typename Real>
void multiply_kept(const Real* a, const std::uint8_t* kept, const Real* b, Real* c,
                   std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  if (all_finite(b, inner * columns)) {
    return multiply_dispatch(a, b, c, rows, inner, columns);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < inner; ++k) {
      if (!kept[row * inner + k]) {
        continue;
      }
      const Real factor = a[row * inner + k];
      for (std::int64_t column = 0; column < columns; ++column) {
        c[row * columns + column] += factor * b[k * columns + column];
      }
    }
  }
}

}  // namespace

void multiply_add(const double* a, const double* b, double* c, std::int64_t rows,
                  std::int64_t inner, std::int64_t columns) {
  multiply_dispatch(a, b, c, rows, inner, columns);
}

void multiply_add(const float* a, const float* b, float* c, std::int64_t rows, std::int64_t inner,
                  std::int64_t columns) {
  multiply_dispatch(a, b, c, rows, inner, columns);
}

void multiply_add_kept(const double* a, const std::uint8_t* kept, const double* b, double* c,
                       std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  multiply_kept(a, kept, b, c, rows, inner, columns);
}

void multiply_add_kept(const float* a, const std::uint8_t* kept, const float* b, float* c,
                       std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  multiply_kept(a, kept, b, c, rows, inner, columns);
}

}  // namespace attnjit::reference
