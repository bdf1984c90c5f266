#pragma once
#include "attnjit/backward_wgmma_config.h"
#include "attnjit/ptx/elect.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/clear_rows.cuh"
#include "attnjit/tile/live_rows.cuh"

// K and V of a Hopper backward that has keys at rest, on their way to shared memory.
namespace attnjit::kernel {

// Starts loading kRows rows by kColumns columns of a head; one thread does.
template <int kColumns, int kRows>
ATTNJIT_DEVICE void load_slabs(uint32 tile, const TensorMap& map, uint32 full, int row, int head,
                               int batch) {
#pragma unroll 1
  for (int slab = 0; slab < kColumns / 64; ++slab) {
    ptx::tensor_load(tile + slab * kRows * 128, map, full, 64 * slab, row, head, batch);
  }
}

// Starts loading the keys of the thread block, by a warp.
template <auto kConfig, class Shared, class Walk>
ATTNJIT_DEVICE void load_resident_keys(const BackwardWgmmaParams& params, const Shared& shared,
                                       Walk& walk) {
  const bool hides = walk.hides_keys(walk.keys_of_head());
  if (!ptx::elect_lane()) return;
  const uint32 full = hides ? shared.keys_landed() : shared.keys_full();
  ptx::barrier_arrive_expecting(full, kConfig.k_bytes() + kConfig.v_bytes());
  const int key = walk.block.kv_begin + walk.kv_tile * kConfig.block_kv;
  load_slabs<kConfig.padded_head_dim(), kConfig.block_kv>(shared.k(), params.k, full, key,
                                                          walk.kv_head(), walk.block.tensor_batch);
  load_slabs<kConfig.padded_head_dim_v(), kConfig.block_kv>(
      shared.v(), params.v, full, key, walk.kv_head(), walk.block.tensor_batch);
}

// Sets to zero the rows that no query of the block's heads sees, by a warp, once they have landed
// in this phase. Returns whether there may be any.
template <auto kConfig, class Shared, class Walk>
ATTNJIT_DEVICE bool hide_resident_keys(const Shared& shared, Walk& walk, uint32 phase = 0) {
  const KeyRange keys = walk.keys_of_head();
  if (!walk.hides_keys(keys)) return false;
  const LiveRows read = walk.read_keys(keys);
  const auto hidden = [&](int row) { return !read.has(row); };
  ptx::barrier_wait(shared.keys_landed(), phase);
  clear_rows<kConfig.padded_head_dim(), kConfig.block_kv>(shared.k(), hidden);
  clear_rows<kConfig.padded_head_dim_v(), kConfig.block_kv>(shared.v(), hidden);
  show_rows(shared.keys_full());
  return true;
}

}  // namespace attnjit::kernel
