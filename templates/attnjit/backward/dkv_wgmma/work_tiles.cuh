#pragma once
#include "attnjit/backward/dkv_wgmma/config.h"
#include "attnjit/backward/job.cuh"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/schedule.cuh"

namespace attnjit::kernel {

// A work tile of the Hopper backward: a tile of keys of one kv head with all or a share of its
// queries, and the first tile of these queries. A work tile that does not exist marks the end.
struct KeyWorkTile {
  static constexpr uint32 kNone = ~0u;  // plane

  PlaneTile at;
  BackwardJob first;

  ATTNJIT_DEVICE bool exists() const { return at.plane != kNone; }
};

// The work tiles of a thread block, found by the warp that loads queries: the one of the block's
// index; or, with shares_work, the next ones of a counter, so that no block is idle while there is
// work; or, with owns_kv_head, all tiles of every num_blocks-th kv head.
//
// Thread blocks wait for work tiles of lower numbers, for zeros and for dq semaphores. Blocks with
// those work tiles are running: the hardware starts thread blocks in the order of their indices,
// and only blocks that have started take numbers from the counter.
template <DkvWgmmaConfig kConfig>
class KeyWorkTiles {
 public:
  ATTNJIT_DEVICE explicit KeyWorkTiles(const DkvWgmmaParams& params)
      : params_(params), next_(kConfig.owns_kv_head ? 0 : ptx::block_index()) {
    ask();
  }

  // Requests the next work tile, so that take() need not wait: as late as possible, because another
  // thread block may become free before.
  ATTNJIT_DEVICE void ask() {
    if (!kConfig.shares_work || ptx::lane_index() != 0) return;
    next_ = ptx::take_count(params_.work_taken);
  }
  // The next work tile, or none.
  ATTNJIT_DEVICE PlaneTile take() {
    const uint32 tiles = params_.base.num_kv_tiles, planes = params_.base.num_planes;
    if constexpr (kConfig.owns_kv_head) {
      const uint32 number = next_++;
      const uint32 plane = ptx::block_index() + number / tiles * params_.num_blocks;
      return {plane < planes ? plane : KeyWorkTile::kNone, number % tiles};
    }
    const uint32 index = kConfig.shares_work ? ptx::warp_broadcast(next_, 0) : next_;
    const uint32 tiles_per_plane = tiles * params_.base.num_splits;
    if (index >= tiles_per_plane * planes) return {KeyWorkTile::kNone, 0};
    PlaneTile work = find_plane_tile(params_.base, tiles_per_plane, index);
    if constexpr (kConfig.splits_last()) {
      work.tile = work.tile % tiles * params_.base.num_splits + work.tile / tiles;
    }
    return work;
  }

 private:
  const DkvWgmmaParams& params_;
  uint32 next_;  // lane 0's, where thread blocks share work
};

}  // namespace attnjit::kernel
