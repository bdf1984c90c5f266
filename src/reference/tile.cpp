#include "reference/tile.hpp"

#include <algorithm>
#include <vector>

#include "tensor/half.hpp"

namespace attnjit::reference {

// The dtype is looked at once per row, not per element.
template <typename Real>
void load_row(const Tensor& tensor, std::int64_t batch, std::int64_t head, std::int64_t row,
              Real* to) {
  const std::int64_t size = tensor.shape[3];
  const std::int64_t stride = tensor.strides[3];
  const std::int64_t offset =
      batch * tensor.strides[0] + head * tensor.strides[1] + row * tensor.strides[2];
  const auto* bits = static_cast<const std::uint16_t*>(tensor.data) + offset;
  if (tensor.dtype == DType::kBFloat16) {
    for (std::int64_t d = 0; d < size; ++d) to[d] = tensor::widen_bfloat16(bits[d * stride]);
  } else if (tensor.dtype == DType::kFloat16) {
    for (std::int64_t d = 0; d < size; ++d) to[d] = tensor::widen_float16(bits[d * stride]);
  } else {
    for (std::int64_t d = 0; d < size; ++d) {
      to[d] = static_cast<Real>(tensor::load(tensor.data, tensor.dtype, offset + d * stride));
    }
  }
}

template <typename Real>
void load_rows(const Tensor& tensor, std::int64_t batch, std::int64_t head, KeyRange rows,
               std::int64_t width, Real* to) {
  std::fill_n(to, (rows.end - rows.begin) * width, Real{0});
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    load_row(tensor, batch, head, row, to + (row - rows.begin) * width);
  }
}

template <typename Real>
void load_columns(const Tensor& tensor, std::int64_t batch, std::int64_t head, KeyRange rows,
                  Real* to) {
  const std::int64_t size = tensor.shape[3];
  std::vector<Real> values(static_cast<std::size_t>(size));
  std::fill_n(to, size * kTile, Real{0});
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    load_row(tensor, batch, head, row, values.data());
    for (std::int64_t d = 0; d < size; ++d) {
      to[d * kTile + row - rows.begin] = values[static_cast<std::size_t>(d)];
    }
  }
}

template void load_row(const Tensor&, std::int64_t, std::int64_t, std::int64_t, float*);
template void load_row(const Tensor&, std::int64_t, std::int64_t, std::int64_t, double*);
template void load_rows(const Tensor&, std::int64_t, std::int64_t, KeyRange, std::int64_t, float*);
template void load_rows(const Tensor&, std::int64_t, std::int64_t, KeyRange, std::int64_t, double*);
template void load_columns(const Tensor&, std::int64_t, std::int64_t, KeyRange, float*);
template void load_columns(const Tensor&, std::int64_t, std::int64_t, KeyRange, double*);

}  // namespace attnjit::reference
