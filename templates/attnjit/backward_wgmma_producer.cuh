#pragma once
#include "attnjit/backward_block.cuh"
#include "attnjit/backward_wgmma_shared.cuh"
#include "attnjit/ptx/bulk_copy.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/tile/team.cuh"

// The warps of the Hopper backward that do not multiply: one walks over the tiles of queries and
// loads; another sets rows to zero that must not be read.
namespace attnjit::kernel {

// The walk of a thread block; a warp calls it whole.
template <BackwardWgmmaConfig kConfig, class Features>
struct BackwardWalk : KeyTileWalk<BackwardBlock<kConfig.scores(), Features, WarpTeam>> {
  using Base = KeyTileWalk<BackwardBlock<kConfig.scores(), Features, WarpTeam>>;
  using Base::Base;
  using Base::block, Base::features, Base::kv_tile, Base::params;
  using typename Base::Job;

  ATTNJIT_DEVICE Job next() {
    return this->next_job([](int, int) {});
  }

  // Whether keys are dropped from the tile of a job, by the mask or otherwise.
  ATTNJIT_DEVICE bool masks(const Job& job) {
    if (job.use == TileUse::kMasked) return true;
    constexpr int kUnit = kConfig.scores().keys();  // of use()
    Block rows = block;
    this->set_rows(rows, job.tile);
    bool masked = false;
#pragma unroll 1
    for (int i = 0; i < kConfig.block_kv / kUnit; ++i) {
      masked |= features.use(rows, kv_tile * (kConfig.block_kv / kUnit) + i) != TileUse::kPlain;
    }
    return masked;
  }

  // Whether the tile has dead rows inside of the tensor: whatever is stored there, a NaN included,
  // would reach dk and dv as 0 * NaN.
  ATTNJIT_DEVICE bool hides_rows(const Job& job) const {
    const int left = block.seqlen_q - job.tile * kConfig.block_q;
    const int rows = left < kConfig.block_q ? left : kConfig.block_q;
    return (~job.live.low & first(rows)) != 0 || (~job.live.high & first(rows - 64)) != 0;
  }
  // The same of keys that no query of the block's heads sees, and of dq.
  ATTNJIT_DEVICE bool hides_keys(const KeyRange& keys) const {
    const int begin = kv_tile * kConfig.block_kv, end = begin + kConfig.block_kv;
    return begin < keys.begin || (end > keys.end && block.seqlen_kv > keys.end) ||
           Features::kPicksKeys;
  }

 private:
  // The lowest `count` bits.
  ATTNJIT_DEVICE static uint64 first(int count) {
    return count <= 0 ? 0 : count >= 64 ? ~0ull : (1ull << count) - 1;
  }
};

template <BackwardWgmmaConfig kConfig, class Features>
struct BackwardProducer {
  using Shared = BackwardShared<kConfig>;
  using Walk = BackwardWalk<kConfig, Features>;

  const BackwardWgmmaParams& params;
  Shared shared;
  Walk walk;
  const bool issues = ptx::lane_index() == 0;  // copies, for the warp
  typename Shared::StageTurn turn = {};

  ATTNJIT_DEVICE BackwardProducer(const BackwardWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    walk.locate();
    load_keys();
    while (true) {
      const typename Walk::Job job = walk.next();
      const uint32 stage = turn.slot();
      ptx::barrier_wait(shared.empty(stage), turn.empty());
      turn.advance();
      if (!job.exists()) {
        Shared::put_if(issues, shared.job(stage), {BackwardJob::kNone, 0, false});
        ptx::barrier_arrive_if(issues, shared.full(stage));
        return;
      }
      const bool masks = walk.masks(job), hides = walk.hides_rows(job);
      if (issues) load_queries(job, masks, hides, stage);
    }
  }

 private:
  ATTNJIT_DEVICE void load_keys() {
    const bool hides = walk.hides_keys(walk.keys_of_head());
    if (!issues) return;
    const uint32 full = hides ? shared.keys_landed() : shared.keys_full();
    ptx::barrier_arrive_expecting(full, kConfig.k_bytes() + kConfig.v_bytes());
    const int key = walk.kv_tile * kConfig.block_kv;
    load_slabs<kConfig.padded_head_dim(), kConfig.block_kv>(shared.k(), params.k, full, key,
                                                            walk.kv_head());
    load_slabs<kConfig.padded_head_dim_v(), kConfig.block_kv>(shared.v(), params.v, full, key,
                                                              walk.kv_head());
  }
  ATTNJIT_DEVICE void load_queries(const typename Walk::Job& job, bool masks, bool hides,
                                   uint32 stage) {
    Shared::put_if(true, shared.job(stage), {job.head, job.tile, masks});
    const uint32 full = hides ? shared.landed(stage) : shared.full(stage);
    ptx::barrier_arrive_expecting(full,
                                  kConfig.q_bytes() + kConfig.dout_bytes() + kConfig.rows_bytes());
    const int row = job.tile * kConfig.block_q;
    load_slabs<kConfig.padded_head_dim(), kConfig.block_q>(shared.q(stage), params.q, full, row,
                                                           job.head);
    load_slabs<kConfig.padded_head_dim_v(), kConfig.block_q>(shared.dout(stage), params.dout, full,
                                                             row, job.head);
    const int64 plane = static_cast<int64>(walk.block.batch) * params.base.num_heads_q + job.head;
    ptx::bulk_load(
        shared.rows(stage),
        params.row_pieces + (plane * params.base.padded_rows + row) * (kRowPieceBytes / 4),
        kConfig.rows_bytes(), full);
  }
  template <int kColumns, int kRows>
  ATTNJIT_DEVICE void load_slabs(uint32 tile, const TensorMap& map, uint32 full, int row,
                                 int head) {
#pragma unroll 1
    for (int slab = 0; slab < kColumns / 64; ++slab) {
      ptx::tensor_load(tile + slab * kRows * 128, map, full, 64 * slab, row, head,
                       walk.block.batch);
    }
  }
};

// Walks along and sets to zero the rows of K and V that no query sees, and the dead rows of Q and
// dO.
template <BackwardWgmmaConfig kConfig, class Features>
struct BackwardHider {
  using Shared = BackwardShared<kConfig>;

  Shared shared;
  BackwardWalk<kConfig, Features> walk;

  ATTNJIT_DEVICE BackwardHider(const BackwardWgmmaParams& p, const Features& f) : walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    walk.locate();
    hide_keys();
    typename Shared::StageTurn turn = {};
    uint32 phases = 0;  // of landed(), which few tiles go through; a bit for each stage
    for (;; turn.advance()) {
      const auto job = walk.next();
      if (!job.exists()) return;
      if (!walk.hides_rows(job)) continue;
      const uint32 stage = turn.slot();
      ptx::barrier_wait(shared.landed(stage), phases >> stage & 1);
      phases ^= 1u << stage;
      const auto dead = [&](int row) { return !job.live.has(row); };
      clear<kConfig.padded_head_dim(), kConfig.block_q>(shared.q(stage), dead);
      clear<kConfig.padded_head_dim_v(), kConfig.block_q>(shared.dout(stage), dead);
      show(shared.full(stage));
    }
  }

 private:
  ATTNJIT_DEVICE void hide_keys() {
    const KeyRange keys = walk.keys_of_head();
    if (!walk.hides_keys(keys)) return;
    const auto hidden = [&](int row) {
      const int key = walk.kv_tile * kConfig.block_kv + row;
      return key < keys.begin || key >= keys.end || !walk.features.reads_key(key);
    };
    ptx::barrier_wait(shared.keys_landed(), 0);
    clear<kConfig.padded_head_dim(), kConfig.block_kv>(shared.k(), hidden);
    clear<kConfig.padded_head_dim_v(), kConfig.block_kv>(shared.v(), hidden);
    show(shared.keys_full());
  }
  // Four lines of 128 bytes at a time, eight lanes each.
  template <int kColumns, int kRows, class Hidden>
  ATTNJIT_DEVICE static void clear(uint32 tile, Hidden hidden) {
    const int chunk = ptx::lane_index() & 7;
    for (int row = ptx::lane_index() >> 3; row < kRows; row += 4) {
      if (!hidden(row)) continue;
      for (int slab = 0; slab < kColumns / 64; ++slab) {
        ptx::store_shared_16(tile + (slab * kRows + row) * 128 + 16 * chunk, {});
      }
    }
  }
  ATTNJIT_DEVICE static void show(uint32 full) {
    ptx::fence_async_proxy();
    ptx::warp_sync();  // all rows are zero
    ptx::barrier_arrive_if(ptx::lane_index() == 0, full);
  }
};

}  // namespace attnjit::kernel
