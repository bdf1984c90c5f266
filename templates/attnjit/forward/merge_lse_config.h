#pragma once
#include "attnjit/forward/params.h"

namespace attnjit::kernel {

// Specialises the kernel that merges partial results of attention.
struct MergeLseConfig {
  static constexpr int kMaxColumns = 1 << 29;  // and a pass more are 32-bit numbers
  DType part_dtype;
  DType dtype;  // of out
  int head_dim_v;
  bool aligned;  // rows of all tensors start at multiples of 16 bytes and have whole vectors
  bool carry;    // whether an fp32 result is one part more

  ATTNJIT_CONSTEXPR int num_threads() const { return 256; }
  // Neighbouring threads that share a row, eight columns each; a power of two.
  ATTNJIT_CONSTEXPR int row_threads() const {
    int threads = 1;
    while (threads < num_threads() && 8 * threads < head_dim_v) threads *= 2;
    return threads;
  }
  // Columns that they take at once.
  ATTNJIT_CONSTEXPR int pass_columns() const { return 8 * row_threads(); }
  ATTNJIT_CONSTEXPR int block_rows() const { return num_threads() / row_threads(); }
};

// The rule that `config` breaks, or nullptr.
ATTNJIT_CONSTEXPR const char* why_invalid(const MergeLseConfig& config) {
  if (config.head_dim_v < 1 || config.head_dim_v > MergeLseConfig::kMaxColumns) {
    return "head_dim_v must be 1 to 2^29";
  }
  if (config.aligned && config.head_dim_v % 8 != 0) return "aligned rows have whole vectors of 8";
  return nullptr;
}

struct MergeLseParams {
  const void* parts;       // [part][batch, heads, rows, head_dim_v]
  const float* part_lses;  // [part][batch, heads, rows]
  const float* carry;      // [batch, heads, rows, head_dim_v]; may be `out`
  const float* carry_lse;  // [batch, heads, rows]; may be `lse`
  void* out;               // [batch, heads, rows, head_dim_v]
  float* lse;              // [batch, heads, rows] or null
  int64 part_stride;       // elements
  RowStrides part_strides, carry_strides, out_strides;
  int64 num_rows;  // batch * heads * seqlen_q
  int32 num_heads;
  int32 seqlen_q;
  int32 num_parts;
};

}  // namespace attnjit::kernel
