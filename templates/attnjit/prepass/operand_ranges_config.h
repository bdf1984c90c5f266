#pragma once
#include "attnjit/score/expression_params.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that finds the ranges of operands.
struct OperandRangesConfig {
  int num_warps;

  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * num_warps; }
  ATTNJIT_CONSTEXPR int64 num_blocks(int64 ranges) const {
    return (ranges + num_warps - 1) / num_warps;
  }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return 0; }
};

// An operand with a ranged axis, which is its last one here.
struct RangedOperand {
  const void* data;
  IntRange* ranges;  // of ExpressionOperand
  int32* lines;
  int64 strides[4];  // in bytes
  int32 sizes[4];
  int32 length;
  int32 element_bytes;  // 4 of int32, 1 of bool
  int32 end_range;      // of it and of those before it
};

struct OperandRangesParams {
  RangedOperand operands[kMaxExpressionOperands];
  uint32* work_taken;  // to be cleared; may be nullptr
};

}  // namespace attnjit::kernel
