#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Operands of an expression at most.
inline constexpr int kMaxExpressionOperands = 16;

// An operand of an expression. Strides are in bytes; an axis of size 1 has stride 0. An index
// outside of its axis reads the element at the nearest end.
struct ExpressionOperand {
  const void* data;
  int64 strides[4];
  int32 sizes[4];
};

// The values of an expression, whose operands come last: a kernel takes as many as it has of those
// that the host holds.
template <int kOperands>
struct ExpressionParams {
  int32 bottom_right;  // whether the diagonal ends at the last row and key
  int32 offset;        // of the diagonal
  ExpressionOperand operands[kOperands > 0 ? kOperands : 1];
};

}  // namespace attnjit::kernel
