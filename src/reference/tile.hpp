#pragma once
#include <cstdint>

#include "attnjit/tensor.hpp"
#include "reference/score_rule.hpp"

namespace attnjit::reference {

/// Keys per tile of the reference: a multiple of kColumnStep.
inline constexpr std::int64_t kTile = 64;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// All of these are for Real = float and double, which hold every stored value exactly.

/// One row of a tensor, widened, as `to` [shape[3]].
template <typename Real>
void load_row(const Tensor& tensor, std::int64_t batch, std::int64_t head, std::int64_t row,
              Real* to);

/// Rows of a (batch, head) as `to` [rows, width], zero past the tensor's own width.
template <typename Real>
void load_rows(const Tensor& tensor, std::int64_t batch, std::int64_t head, KeyRange rows,
               std::int64_t width, Real* to);

/// Up to kTile rows, transposed, as `to` [shape[3], kTile], zero past the last row.
template <typename Real>
void load_columns(const Tensor& tensor, std::int64_t batch, std::int64_t head, KeyRange rows,
                  Real* to);

}  // namespace attnjit::reference
