#pragma once
#include "attnjit/forward/params.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that copies selected keys and values.
struct GatherKeysConfig {
  int head_dim, head_dim_v;
  bool aligned;     // rows of k and v are multiples of 16 bytes at such addresses
  int index_bytes;  // 4 or 8
  int num_warps;

  static constexpr int kRows = 4;  // of a warp

  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * num_warps; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return 0; }
  // Rows that a thread block copies.
  ATTNJIT_CONSTEXPR int block_rows() const { return kRows * num_warps; }
};

// Elements from row to row of the copies: whole 16 bytes.
ATTNJIT_CONSTEXPR int copied_row(int head_dim) { return round_up(head_dim, 8); }

struct GatherKeysParams {
  const void* k;
  const void* v;
  RowStrides k_strides, v_strides;
  const void* indices;
  int64 index_strides[3];   // over (batch, head, key), in elements
  const int32* seqlens_kv;  // may be nullptr
  int32 num_keys;           // rows of k and v
  int32 num_selected;       // of a kv head
  int32 num_heads;
  int32 num_batches;
  void* k_copy;        // [batch][head][selected key][copied_row()]
  void* v_copy;        // the same
  int32* selected;     // [batch][head][selected key]: the key's number, -1 where none is
  int32* key_numbers;  // [batch]: keys in use
  uint32* work_taken;  // to be cleared; may be nullptr
};

}  // namespace attnjit::kernel
