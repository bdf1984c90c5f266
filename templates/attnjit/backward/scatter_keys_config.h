#pragma once
#include "attnjit/forward/params.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Specialises the kernel that puts dk and dv of selected keys where these are.
struct ScatterKeysConfig {
  DType dtype;
  int head_dim, head_dim_v;
  bool aligned;  // rows of dk and dv are multiples of 16 bytes at such addresses
  int num_warps;
  int num_keys;  // that a thread block has

  ATTNJIT_CONSTEXPR int num_threads() const { return 32 * num_warps; }
  ATTNJIT_CONSTEXPR int shared_bytes() const { return 2 * 4 * num_keys; }
};

struct ScatterKeysParams {
  // Of the selected keys, and their numbers, as GatherKeysParams.
  const void* dk_selected;
  const void* dv_selected;
  const int32* selected;
  void* dk;
  void* dv;
  RowStrides dk_strides, dv_strides;
  int32 num_keys;      // rows of dk and dv
  int32 num_selected;  // of a kv head
  int32 num_heads;
  int32 blocks_per_plane;  // ceil(num_keys / kConfig.num_keys)
};

}  // namespace attnjit::kernel
