#pragma once
#include "attnjit/backward/wgmma_params.h"
#include "attnjit/ptx/elect.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/clear_rows.cuh"
#include "attnjit/tile/live_rows.cuh"
#include "attnjit/tile/load_slabs.cuh"

// K and V of a Hopper backward that has keys at rest, on their way to shared memory.
namespace attnjit::kernel {

// Start loading K, or V, of the walk's keys; one thread does.
template <auto kConfig, class Walk>
ATTNJIT_DEVICE void load_resident_k(const DkvWgmmaParams& params, const Walk& walk, uint32 tile,
                                    uint32 full) {
  load_slabs<SlabTile<kConfig.block_kv, kConfig.depth()>>(
      tile, params.k, full, walk.block.kv_begin + walk.kv_tile * kConfig.block_kv, walk.kv_head(),
      walk.block.tensor_batch);
}
template <auto kConfig, class Walk>
ATTNJIT_DEVICE void load_resident_v(const DkvWgmmaParams& params, const Walk& walk, uint32 tile,
                                    uint32 full) {
  load_slabs<SlabTile<kConfig.block_kv, kConfig.depth_v()>>(
      tile, params.v, full, walk.block.kv_begin + walk.kv_tile * kConfig.block_kv, walk.kv_head(),
      walk.block.tensor_batch);
}

// Sets to zero the rows of K and V that no query of the block's heads sees, by a warp, once they
// have landed in this phase. Returns whether there may be any.
template <auto kConfig, class Walk>
ATTNJIT_DEVICE bool zero_fill_resident_keys(Walk& walk, uint32 k, uint32 v, uint32 landed,
                                            uint32 phase) {
  const KeyRange keys = walk.keys_of_head();
  if (!walk.zero_fills_keys(keys)) return false;
  const LiveRows read = walk.read_keys(keys);
  const auto unread = [&](int row) { return !read.has(row); };
  ptx::barrier_wait(landed, phase);
  clear_rows<SlabTile<kConfig.block_kv, kConfig.depth()>>(k, unread);
  clear_rows<SlabTile<kConfig.block_kv, kConfig.depth_v()>>(v, unread);
  return true;
}

}  // namespace attnjit::kernel
