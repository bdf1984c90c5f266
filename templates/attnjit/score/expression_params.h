#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Operands of an expression at most.
inline constexpr int kMaxExpressionOperands = 16;

// The least and the greatest of some ints; of bools 0 is false.
struct alignas(8) IntRange {
  int32 first, last;
};

// Neighbouring elements along one axis of an operand whose range a prepass writes.
inline constexpr int kRangeElements = 64;

// An operand of an expression. Strides are in bytes; an axis of size 1 has stride 0. An index
// outside of its axis reads the element at the nearest end.
//
// Of an operand with a ranged axis a prepass writes the elements along that axis one after another,
// `length` of them, past the end the last one again, and their ranges. The other axes make up the
// planes, in their order.
struct ExpressionOperand {
  const void* data;
  int64 strides[4];
  int32 sizes[4];
  const IntRange* ranges;  // [plane][range]; nullptr without a ranged axis
  const int32* lines;      // [plane][length]
  int32 length;            // past every row and key of a tile
};

// The values of an expression, whose operands come last: a kernel takes as many as it has of those
// that the host holds.
template <int kOperands>
struct ExpressionParams {
  int32 bottom_right;  // whether the diagonal ends at the last row and key
  int32 offset;        // of the diagonal
  int32 row_offset, key_offset;
  ExpressionOperand operands[kOperands > 0 ? kOperands : 1];
};

}  // namespace attnjit::kernel
