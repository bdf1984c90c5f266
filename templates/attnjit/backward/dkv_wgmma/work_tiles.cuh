#pragma once
#include "attnjit/backward/dkv_wgmma/config.h"
#include "attnjit/backward/job.cuh"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/schedule.cuh"

namespace attnjit::kernel {

// What a thread block of the Hopper backward works on at a time: a tile of keys of one kv head, or
// a share of its queries, and the first tile of these. One that does not exist comes after the
// last.
struct KeyWorkTile {
  static constexpr uint32 kNone = ~0u;  // plane

  PlanePart at;
  BackwardJob first;

  ATTNJIT_DEVICE bool exists() const { return at.plane != kNone; }
};

// The work tiles of a thread block, one after another, as the warp that loads queries finds them:
// its own by index; or those that a count gives, where thread blocks share work, so that none is
// idle while there is some; or all tiles of every num_blocks-th kv head, where it owns kv heads.
//
// Thread blocks wait for work tiles of lower numbers, for zeros and at dq. Those are at work then:
// the hardware begins thread blocks in the order of their indices, and a count gives to those that
// have begun alone.
template <DkvWgmmaConfig kConfig>
class KeyWorkTiles {
 public:
  ATTNJIT_DEVICE explicit KeyWorkTiles(const DkvWgmmaParams& params)
      : params_(params), next_(kConfig.owns_kv_head ? 0 : ptx::block_index()) {
    ask();
  }

  // Asks for the next work tile, so that the answer is there with take(): as late as that allows,
  // for another thread block might be free before.
  ATTNJIT_DEVICE void ask() {
    if (!kConfig.shares_work || ptx::lane_index() != 0) return;
    next_ = ptx::take_count(params_.work_taken);
  }
  // The next work tile, or none.
  ATTNJIT_DEVICE PlanePart take() {
    const uint32 tiles = params_.base.num_kv_tiles, planes = params_.base.num_planes;
    if constexpr (kConfig.owns_kv_head) {
      const uint32 number = next_++;
      const uint32 plane = ptx::block_index() + number / tiles * params_.num_blocks;
      return {plane < planes ? plane : KeyWorkTile::kNone, number % tiles};
    }
    const uint32 index = kConfig.shares_work ? ptx::warp_broadcast(next_, 0) : next_;
    const uint32 parts = tiles * params_.base.num_splits;
    if (index >= parts * planes) return {KeyWorkTile::kNone, 0};
    return find_plane_part(params_.base, parts, index);
  }

 private:
  const DkvWgmmaParams& params_;
  uint32 next_;  // lane 0's, where thread blocks share work
};

}  // namespace attnjit::kernel
