#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/packed_rows.h"

namespace attnjit::kernel {

// Specialises the kernel that turns fp32 fragments into a gradient.
struct FragmentSumConfig {
  DType dtype;   // of the gradient
  int head_dim;  // its columns
  bool aligned;  // its rows move in 16-byte vectors
  bool packed;   // its rows are those of packed sequences
  bool stored;   // there are sums of those rows alone that were added to

  ATTNJIT_CONSTEXPR int num_threads() const { return 128; }
  ATTNJIT_CONSTEXPR int groups() const { return ceil_div(head_dim, 8); }
  // Shared memory, in bytes: kRowBlock rounded rows.
  ATTNJIT_CONSTEXPR int shared_bytes() const { return kRowBlock * round_up(head_dim, 16) * 2; }
};

struct FragmentSumParams {
  const float* sums;  // [plane][row / 16][column / 8][128], see backward/params.h
  void* target;       // [batch, num_heads, seqlen, head_dim]
  RowStrides target_strides;
  int32 num_heads;       // of the target
  int32 seqlen;          // rows of the target
  int32 num_row_blocks;  // ceil(seqlen / kRowBlock), or the tiles of packed sequences
  float factor;          // multiplies the sums
  PackedRows packed;
  const uint32*
      dq_semaphores;  // [plane][row / 16]: 0 where no sums were stored, if the config says stored
};

}  // namespace attnjit::kernel
