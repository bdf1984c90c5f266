#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/wgmma/shared.cuh"
#include "attnjit/packed_work.h"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"

namespace attnjit::kernel {

// Plans the places of a thread block among packed sequences, while the warps that walk are busy
// with the last tile of the place before; a thread does. Thread blocks share out the blocks of rows
// by a count. The first place may be empty, because the consumers wait for one;
// split is -1 after the last.
template <ForwardWgmmaConfig kConfig, class Features>
ATTNJIT_DEVICE void plan_rows(const ForwardWgmmaParams& params, const Features& features) {
  const ForwardShared<kConfig> shared;
  const PackedWork& work = features.packed_work();
  ptx::wait_for_previous_kernel();  // which writes the order
  const uint32 tiles = ptx::load_global_written(work.counts + PackedWork::kTiles);
  const uint32 section = ptx::load_global_written(work.counts + PackedWork::kSection);
  const uint32 blocks = tiles * params.base.num_planes;
  RowsPlace place{};
  for (typename ForwardShared<kConfig>::PlaceTurn turn; place.split == 0; turn.advance()) {
    const uint32 slot = turn.slot();
    ptx::barrier_wait(shared.place_wanted(), turn.turn & 1);
    ptx::barrier_wait(shared.place_empty(slot), turn.empty());
    PackedPosition at{tiles, 0};
    const uint32 position = ptx::take_count(work.counts + PackedWork::kTaken);
    if (position < blocks) {
      at = packed_position(position, tiles, section);
    } else if (turn.turn != 0) {
      place.split = -1;
    }
    const ptx::Vector8 tile =
        ptx::load_global_written(reinterpret_cast<const ptx::Vector8*>(work.tiles + at.rank));
    place.batch = static_cast<int>(tile.word[0]);
    place.head = static_cast<int>(at.plane) * kConfig.packed_heads();
    place.q_tile = static_cast<int>(tile.word[1]);
    shared.put_place(shared.planned_word(slot), place);
    ptx::barrier_arrive_if(true, shared.place_full(slot));
  }
}

}  // namespace attnjit::kernel
