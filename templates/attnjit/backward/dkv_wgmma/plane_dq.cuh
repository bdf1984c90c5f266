#pragma once
#include "attnjit/backward/dkv_wgmma/dq_subtiles.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/tile/store_rows.cuh"

namespace attnjit::kernel {

// dq of a thread block that takes all keys of a kv head, one tile after another, so that no other
// block adds to it. Of the tiles of keys that a tile of queries sees, the first stores its subtiles
// in the sums, others add theirs, and the last one starts from the sums and writes dq. So no kernel
// zeroes or rounds the sums, the same inputs give the same bits, and the sums of the current heads
// take little of L2.
//
// The sums for the last tile are loaded into the buffers of its subtiles while its dS is still
// being computed. Bulk groups are counted to know which are complete: each tile of queries has
// kGroupsPerTile of them, some empty.
template <DkvWgmmaConfig kConfig, class Features, int kGroupsPerTile>
struct BackwardPlaneDq : BackwardDqSubtiles<kConfig, Features> {
  using Base = BackwardDqSubtiles<kConfig, Features>;
  using Base::Base;
  using Base::kSubtiles, Base::kFragmentBytes, Base::kGroups, Base::kSlabs;
  using Base::lane, Base::num_subtiles, Base::params, Base::shared, Base::walk, Base::warp;
  using typename Base::Subtile;

  // The position of a tile of keys among those that a tile of queries sees.
  struct Share {
    bool first, last;
    ATTNJIT_DEVICE bool resumes() const { return last && !first; }
  };

  uint32 visited =
      ~0u -
      63;  // index of the last visit of the lane's tile of queries, one of 32; long ago at first
  uint32 num_resumed = 0;  // tiles whose sums have been loaded

  // Waits until the additions of earlier tiles of keys are complete, and starts to load the sums if
  // this tile is the last. `index` counts tiles.
  ATTNJIT_DEVICE Share begin_tile(const BackwardJob& job, uint32 index) {
    const KeyRange seen = walk.keys_of(job.tile);
    const Share share = {walk.kv_tile == seen.begin / kConfig.block_kv,
                         walk.kv_tile == (seen.end - 1) / kConfig.block_kv};
    settle(job, index);
    if (share.resumes()) fetch(job);
    return share;
  }
  // Zeros, or the sums that a subtile starts from.
  ATTNJIT_DEVICE void begin_subtile(Subtile& dq, int subtile, const Share& share) {
    dq = 0.0f;
    if (!share.resumes()) return;
    if (subtile == 0) ptx::barrier_wait(shared.sums_full(warp), num_resumed++ & 1);
    const uint32 buffer = this->buffer_of(num_subtiles++) + 4 * ptx::fragment_slot(lane, 0);
#pragma unroll
    for (int n = 0; n < Base::groups_of(subtile); ++n) {
      const ptx::Vector16 sums = ptx::load_shared_16(buffer + n * kFragmentBytes);
#pragma unroll
      for (int e = 0; e < 4; ++e) dq[0][n][e] = ptx::as_float(sums.word[e]);
    }
  }
  // Writes a subtile of dq, in place of a group of additions.
  ATTNJIT_DEVICE void write(const BackwardJob& job, int subtile, const Subtile& dq) const {
    const BackwardParams& base = params.base;
    const int column = subtile % kSlabs * 64;
    uint16* const head = decltype(walk)::head_of(static_cast<uint16*>(base.dq), base.dq_strides,
                                                 walk.block.batch, job.head);
    store_rows<kConfig.dtype>(dq, base.scale, head + column, base.dq_strides.row,
                              this->first_row(job, subtile), base.seqlen_q,
                              kConfig.head_dim - column);
    ptx::tensor_store_commit();
  }

 private:
  // Waits for the groups up to those of the last visit of the tile of queries. A wait for younger
  // groups would wait for L2.
  ATTNJIT_DEVICE void settle(const BackwardJob& job, uint32 index) {
    const int home = (job.head * params.base.num_q_tiles + job.tile) & 31;
    const uint32 since = index - ptx::warp_broadcast(visited, home);
    if (since >= 8) {
      ptx::tensor_store_wait<7 * kGroupsPerTile>();
    } else if (since >= 4) {
      ptx::tensor_store_wait<3 * kGroupsPerTile>();
    } else if (since >= 2) {
      ptx::tensor_store_wait<kGroupsPerTile>();
    } else {
      ptx::tensor_store_wait();
    }
    if (lane == home) visited = index;
  }
  ATTNJIT_DEVICE void fetch(const BackwardJob& job) const {
    constexpr int kBytes = kConfig.block_q / 64 * kGroups * kFragmentBytes;
    ptx::tensor_store_wait_read();
    ptx::warp_sync();  // all buffers have been read
    if (lane == 0) {
      ptx::barrier_arrive_expecting(shared.sums_full(warp), kBytes);
#pragma unroll
      for (int subtile = 0; subtile < kSubtiles; ++subtile) {
        ptx::bulk_load(this->buffer_of(num_subtiles + subtile), this->sums_of(job, subtile),
                       Base::groups_of(subtile) * kFragmentBytes, shared.sums_full(warp));
      }
    }
    ptx::warp_sync();  // lanes are together for the products
  }
};

}  // namespace attnjit::kernel
