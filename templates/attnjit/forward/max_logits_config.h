#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that reduces the largest scores of rows to those of heads.
struct MaxLogitsConfig {
  int num_warps;

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  // Shared memory, in bytes: a maximum of each warp.
  ATTNJIT_CONSTEXPR int shared_bytes() const { return num_warps * 4; }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const MaxLogitsConfig& config) {
  if (config.num_warps < 1 || config.num_warps > 32) return "num_warps must be 1 to 32";
  return nullptr;
}

struct MaxLogitsParams {
  const float* row_max;  // [batch, num_heads_q, seqlen_q]
  float* max_logits;     // [num_heads_q]
  int32 batch;           // 0 where there is no row
  int32 num_heads_q;
  int32 seqlen_q;  // 1 or more
};

}  // namespace attnjit::kernel
