#pragma once
#include "attnjit/forward/params.h"

namespace attnjit::kernel {

// Specialises the kernel that adds up the splits of the forward.
struct ForwardCombineConfig {
  DType dtype;  // of out
  int head_dim_v;
  int num_warps;
  bool row_max;  // whether the largest scores of rows are wanted

  ATTNJIT_CONSTEXPR int num_threads() const { return num_warps * 32; }
  ATTNJIT_CONSTEXPR int padded_head_dim_v() const { return round_up(head_dim_v, 16); }
  // Shared memory, in bytes: a sum of each warp.
  ATTNJIT_CONSTEXPR int shared_bytes() const { return num_warps * padded_head_dim_v() * 4; }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const ForwardCombineConfig& config) {
  if (config.dtype == DType::kFloat32) return "dtype must be fp16 or bf16";
  if (config.head_dim_v < 1 || config.head_dim_v > 256) return "head_dim_v must be 1 to 256";
  if (config.num_warps < 1 || config.num_warps > 16) return "num_warps must be 1 to 16";
  return nullptr;
}

struct ForwardCombineParams {
  const float* partial_out;  // [row][split][padded head_dim_v]; row = (batch, head, query)
  const float* partial_lse;  // [row][split]
  void* out;                 // [batch, num_heads_q, seqlen_q, head_dim_v]
  float* lse;                // [row] or null
  RowStrides out_strides;
  int32 num_heads_q;
  int32 seqlen_q;
  int32 num_splits;
  const float* partial_row_max;  // [row][split], where the config has row_max
  float* row_max;                // [row], where the config has row_max
};

}  // namespace attnjit::kernel
