#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/wgmma/shared.cuh"
#include "attnjit/packed_work.h"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"

namespace attnjit::kernel {

// Plans the work tiles of a thread block among packed sequences, by one thread, while the warps
// that walk process the last tile of the previous work tile. Thread blocks take blocks of rows from
// a counter. The first work tile may be empty, because the consumers wait for one; split = -1 marks
// the end.
template <ForwardWgmmaConfig kConfig, class Features>
ATTNJIT_DEVICE void plan_rows(const ForwardWgmmaParams& params, const Features& features) {
  const ForwardShared<kConfig> shared;
  const PackedWork& work = features.packed_work();
  ptx::wait_for_previous_kernel();  // which writes the order
  const uint32 tiles = ptx::load_global_written(work.counts + PackedWork::kTiles);
  const uint32 section = ptx::load_global_written(work.counts + PackedWork::kSection);
  const uint32 blocks = tiles * params.base.num_planes;
  RowWorkTile planned{};
  for (typename ForwardShared<kConfig>::WorkState state; planned.split == 0; state.advance()) {
    const uint32 slot = state.slot();
    ptx::barrier_wait(shared.work_wanted(), state.index & 1);
    ptx::barrier_wait(shared.work_empty(slot), state.empty());
    PackedPosition at{tiles, 0};
    const uint32 position = ptx::take_count(work.counts + PackedWork::kTaken);
    if (position < blocks) {
      at = packed_position(position, tiles, section);
    } else if (state.index != 0) {
      planned.split = -1;
    }
    const ptx::Vector8 tile =
        ptx::load_global_written(reinterpret_cast<const ptx::Vector8*>(work.tiles + at.rank));
    planned.batch = static_cast<int>(tile.word[0]);
    planned.head = static_cast<int>(at.plane) * kConfig.pack_gqa_heads();
    planned.q_tile = static_cast<int>(tile.word[1]);
    shared.put_work(shared.planned_word(slot), planned);
    ptx::barrier_arrive_if(true, shared.work_full(slot));
  }
}

}  // namespace attnjit::kernel
