#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/wgmma/shared.cuh"
#include "attnjit/packed_work.h"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/schedule.cuh"

// The blocks of rows that a thread block computes, taken from a counter that all thread blocks
// share: those that finish sooner take more of them.
namespace attnjit::kernel {

// Of packed sequences, in the order of kernel::PackedWork. The first work tile may be empty,
// because the consumers wait for one.
template <ForwardWgmmaConfig kConfig>
struct PackedRowWork {
  const PackedWork& work;
  uint32 planes, tiles, section;

  ATTNJIT_DEVICE PackedRowWork(const ForwardWgmmaParams& params, const PackedWork& w)
      : work(w), planes(params.base.num_planes) {
    ptx::wait_for_previous_kernel();  // which writes the order
    tiles = ptx::load_global_written(work.counts + PackedWork::kTiles);
    section = ptx::load_global_written(work.counts + PackedWork::kSection);
  }
  ATTNJIT_DEVICE RowWorkTile take(uint32 round) const {
    RowWorkTile planned{};
    PackedPosition at{tiles, 0};
    const uint32 position = ptx::take_count(work.counts + PackedWork::kTaken);
    if (position < tiles * planes) {
      at = packed_position(position, tiles, section);
    } else if (round != 0) {
      planned.split = -1;
    }
    const ptx::Vector8 tile =
        ptx::load_global_written(reinterpret_cast<const ptx::Vector8*>(work.tiles + at.rank));
    planned.batch = static_cast<int>(tile.word[0]);
    planned.head = static_cast<int>(at.plane) * kConfig.pack_gqa_heads();
    planned.q_tile = static_cast<int>(tile.word[1]);
    return planned;
  }
};

// In the order of find_plane_tile(). The first one is that of the team's index; where there are
// more than thread blocks, the next ones belong to the one that takes them.
template <ForwardWgmmaConfig kConfig, class Features>
struct CountedRowWork {
  const ForwardWgmmaParams& params;
  const Features& features;
  const uint32 team;

  ATTNJIT_DEVICE CountedRowWork(const ForwardWgmmaParams& p, const Features& f, uint32 own)
      : params(p), features(f), team(own) {
    ptx::wait_for_previous_kernel();  // which clears the counter
  }
  ATTNJIT_DEVICE RowWorkTile take(uint32 round) const {
    constexpr RowWorkTile kEnd = {.batch = 0, .head = 0, .q_tile = 0, .split = -1};
    const ForwardSchedule& schedule = params.schedule;
    const uint32 blocks = static_cast<uint32>(schedule.num_blocks);
    uint32 index = ptx::block_index() + team * blocks;
    if (round != 0) {
      if (params.work_taken == nullptr) return kEnd;
      index = kConfig.teams * blocks + ptx::take_count(params.work_taken);
    }
    const uint32 tiles = schedule.tiles_per_plane, planes = schedule.num_planes;
    if (index >= planes * tiles) return kEnd;
    PlaneTile work = find_plane_tile(params.base, tiles, index);
    work.plane = static_cast<uint32>(schedule.alternated(static_cast<int>(work.plane)));
    return find_rows<kConfig.block_q, kConfig.pack_gqa_heads()>(params.base, features, work);
  }
};

// Plans the work tiles of a thread block, by one thread, while the warps that walk process the last
// tile of the previous work tile. split = -1 marks the end.
template <class Work, ForwardWgmmaConfig kConfig>
ATTNJIT_DEVICE void plan_work(const Work& work, const ForwardShared<kConfig>& shared) {
  RowWorkTile planned{};
  for (typename ForwardShared<kConfig>::WorkState state; planned.split >= 0; state.advance()) {
    const uint32 slot = state.slot();
    ptx::barrier_wait(shared.work_wanted(), state.index & 1);
    ptx::barrier_wait(shared.work_empty(slot), state.empty());
    planned = work.take(state.index);
    shared.put_work(shared.planned_word(slot), planned);
    ptx::barrier_arrive_if(true, shared.work_full(slot));
  }
}

template <ForwardWgmmaConfig kConfig, class Features>
ATTNJIT_DEVICE void plan_rows(const ForwardWgmmaParams& params, const Features& features,
                              const ForwardShared<kConfig>& shared) {
  if constexpr (Features::kPacksSequences) {
    plan_work(PackedRowWork<kConfig>(params, features.packed_work()), shared);
  } else {
    plan_work(CountedRowWork<kConfig, Features>(params, features, shared.team), shared);
  }
}

}  // namespace attnjit::kernel
