#pragma once
#include "problem/checks.hpp"

namespace attnjit::problem {

/// A mask or bias with elements in canonical form: the stride of an axis that is broadcast, or has
/// nothing to step to, is 0. What packed sequences make of it is the caller's to say.
inline Operand canonical_operand(const Tensor& tensor) {
  const auto stride = [&](int axis) { return tensor.shape[axis] <= 1 ? 0 : tensor.strides[axis]; };
  const auto size = [&](int axis) {
    return stride(axis) != 0 ? static_cast<std::int32_t>(tensor.shape[axis]) : 1;
  };
  Operand o;
  o.dtype = tensor.dtype;
  o.batch_stride = stride(0);
  o.head_stride = stride(1);
  o.query_stride = stride(2);
  o.key_stride = stride(3);
  o.num_batches = size(0);
  o.num_heads = size(1);
  o.queries = size(2);
  o.keys = size(3);
  if (o.key_stride == 0) {
    o.extent = Extent::kPerQuery;
    return o;
  }
  o.extent = o.query_stride == 0 ? Extent::kPerKey : Extent::kPerPair;
  o.vectorized = o.key_stride == 1 &&
                 checks::rows_aligned(tensor, o.batch_stride | o.head_stride | o.query_stride);
  return o;
}

}  // namespace attnjit::problem
