#pragma once
#include "attnjit/forward_rows.cuh"
#include "attnjit/forward_wgmma_shared.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel {

// Plans the places of a thread block among packed sequences, ahead of the warps that walk; a warp
// does. All heads of a block of rows follow each other, then those of the next one, which costs no
// more, and thread blocks take them in turns there and back. The first place may be nobody's, for
// those who multiply wait for one; that after the last has no split.
template <ForwardWgmmaConfig kConfig, class Features>
ATTNJIT_DEVICE void plan_rows(const ForwardWgmmaParams& params, Features features) {
  constexpr int kHeads = kConfig.packed_heads();
  const ForwardShared<kConfig> shared;
  const uint32 blocks = params.schedule.num_blocks, planes = params.schedule.num_planes;
  RowsPlace place{};
  for (typename ForwardShared<kConfig>::PlaceTurn turn; place.split == 0; turn.advance()) {
    const uint32 block = ptx::block_index();
    const uint32 mine = turn.turn % 2 == 0 ? block : blocks - 1 - block;
    const uint32 position = turn.turn * blocks + mine, index = position / planes;
    place.head = static_cast<int>(position - index * planes) * kHeads;
    const bool found = features.template find_costliest<kConfig.block_q, kHeads>(
        static_cast<int>(index), place.batch, place.q_tile);
    if (!found && turn.turn != 0) place.split = -1;
    const uint32 slot = turn.slot();
    ptx::barrier_wait(shared.place_empty(slot), turn.empty());
    if (ptx::lane_index() == 0) shared.put_place(shared.planned_word(slot), place);
    ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.place_full(slot));
  }
}

}  // namespace attnjit::kernel
