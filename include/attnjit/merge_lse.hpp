#pragma once
#include <cstdint>
#include <optional>

#include "attnjit/tensor.hpp"

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// Merges results of attention over shares of the keys into that over all of them:
///
///   lse = log sum_s exp(lse_s)        out = sum_s exp(lse_s - lse) out_s
///
/// Sums are fp32. A row in which every lse_s is -inf gets out = 0 and lse = -inf; what a part holds
/// in a row where its lse_s is -inf is not read.
struct MergeLseArgs {
  /// out of the first part: [B, H, L, Dv], Dv up to 2^29 and of unit stride, fp16, bf16 or fp32
  Tensor parts;
  std::int64_t part_stride = 0;      ///< elements from one part to the next
  std::int64_t num_parts = 0;        ///< 1 or more
  const float* part_lses = nullptr;  ///< [num_parts, B, H, L], contiguous
  /// One part more, of fp32 whatever the others are, as a sum that goes on has it. It may be `out`
  /// and `lse` themselves.
  std::optional<Tensor> carry;       ///< [B, H, L, Dv] fp32, unit stride over Dv
  const float* carry_lse = nullptr;  ///< [B, H, L], contiguous; given where carry is
  Tensor out;  ///< [B, H, L, Dv], fp16, bf16 or fp32, unit stride over Dv, without overlap
  float* lse = nullptr;  ///< optional [B, H, L] fp32, contiguous
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
