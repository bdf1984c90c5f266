#pragma once
#include "attnjit/backward/operand_gradient_params.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

inline constexpr int kMaxOperandSums = 4, kMaxSumSources = 8;

// Specialises the kernel that adds up the gradients of operands.
struct OperandSumConfig {
  int num_warps;
  int num_elements;  // of a gradient that a thread block computes

  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * num_warps; }
  // Shared memory, in bytes: sums of each warp.
  ATTNJIT_CONSTEXPR int shared_bytes() const { return num_warps * num_elements * 4; }
};

// A list or sums that a kernel has written by OperandGradientParams.
struct OperandSumSource {
  const float* values;    // [copies][entry of the list], or [copies][element]
  const int32* elements;  // of the entries; null: there is no list
  const IntRange* ranges;
  int64 chunks;  // of a list
  int32 copies;
  int32 operand;  // that it belongs to
};

// The gradient of one operand, or sums of slices of its lists.
struct OperandSum {
  void* target;
  int64 strides[4];  // in elements
  int32 sizes[4];    // 1 past its rank
  int32 num_elements;
  DType dtype;
  int32 slices;     // of the chunks of each list, num_elements apart; lists alone have several
  int32 end_block;  // thread blocks of it and of those before it
};

struct OperandSumParams {
  OperandSum sums[kMaxOperandSums];
  OperandSumSource sources[kMaxSumSources];
  int32 num_sums, num_sources;
};

}  // namespace attnjit::kernel
