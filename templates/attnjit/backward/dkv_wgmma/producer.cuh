#pragma once
#include "attnjit/backward/dkv_wgmma/shared.cuh"
#include "attnjit/backward/resident_keys.cuh"
#include "attnjit/backward/walk.cuh"
#include "attnjit/ptx/bulk_copy.cuh"
#include "attnjit/ptx/elect.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/tile/clear_rows.cuh"
#include "attnjit/tile/team.cuh"

// The warps of the Hopper backward that do not multiply: one walks over the tiles of queries and
// loads; another zero-fills rows that must not be read.
namespace attnjit::kernel {

// Moves a warp that does not multiply to work tile `number`; false after the last.
template <DkvWgmmaConfig kConfig, class Walk>
ATTNJIT_DEVICE bool enter_work(const BackwardShared<kConfig>& shared, Walk& walk, uint32 number) {
  if constexpr (!kConfig.loops_over_work()) {
    walk.locate();
    return walk.has_keys();
  }
  const KeyWorkTile work = shared.next_work(number);
  if (work.exists()) walk.locate(work.at);
  return work.exists();
}

// Walks over the tiles of queries and loads them.
template <DkvWgmmaConfig kConfig, class Features>
struct BackwardProducer {
  using Shared = BackwardShared<kConfig>;
  using Walk = BackwardWalk<kConfig, Features>;

  const DkvWgmmaParams& params;
  Shared shared;
  Walk walk;
  KeyWorkTiles<kConfig> work_tiles;
  typename Shared::StageState state = {};

  ATTNJIT_DEVICE BackwardProducer(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f), work_tiles(p) {}

  ATTNJIT_DEVICE void run() {
    uint32 number = 0;
    for (PlaneTile at = find(); at.plane != KeyWorkTile::kNone; at = find()) {
      typename Walk::Job job = walk.next();
      if (!job.exists()) work_tiles.ask();
      put(number++, {at, job});
      while (job.exists()) job = load(job);
      if (!kConfig.loops_over_work()) return;
    }
    put(number, {{KeyWorkTile::kNone, 0}, {}});
  }

 private:
  // Moves to the next work tile that has keys: with packed sequences some tile numbers have none.
  ATTNJIT_DEVICE PlaneTile find() {
    while (true) {
      const PlaneTile at = work_tiles.take();
      if (at.plane == KeyWorkTile::kNone) return at;
      walk.locate(at);
      if (walk.has_keys()) return at;
      if (!kConfig.loops_over_work()) return {KeyWorkTile::kNone, 0};
      work_tiles.ask();
    }
  }
  // Starts loading a tile of queries and returns the next one.
  ATTNJIT_DEVICE typename Walk::Job load(const typename Walk::Job& job) {
    const typename Walk::Job next = walk.next();
    if (!next.exists()) work_tiles.ask();
    const uint32 stage = state.slot();
    ptx::barrier_wait(shared.empty(stage), state.empty());
    if (ptx::elect_lane()) {
      Shared::put(shared.job(state.index + 1), next);
      load_queries(job, stage);
      if (next.exists()) {
        walk.features.prefetch_tile(block_of(next), walk.kv_tile * kConfig.block_kv, params.bias);
      }
    }
    state.advance();
    return next;
  }
  ATTNJIT_DEVICE void put(uint32 number, const KeyWorkTile& work) {
    shared.await_left(number, 2);  // its words are free
    if (ptx::elect_lane()) shared.put_work(number, work);
  }
  ATTNJIT_DEVICE void load_queries(const typename Walk::Job& job, uint32 stage) {
    const uint32 full = job.zero_fills ? shared.landed(stage) : shared.full(stage);
    ptx::barrier_arrive_expecting(full, kConfig.q_bytes() + kConfig.dout_bytes() +
                                            kConfig.bias_bytes() + kConfig.rows_bytes());
    const int first_query = job.tile * kConfig.block_q;
    const int row = walk.block.q_begin + first_query, batch = walk.block.tensor_batch;
    load_slabs<typename Shared::QTile>(shared.q(stage), params.q, full, row, job.head, batch);
    load_slabs<typename Shared::DoutTile>(shared.dout(stage), params.dout, full, row, job.head,
                                          batch);
    load_rows<kRowBf16x3Bytes / 4>(shared.rows(stage), params.row_bf16x3, full, job);
    if constexpr (kConfig.scale_first) {
      load_rows<1>(shared.lse(stage), params.base.rows.lse, full, job);
    }
    if constexpr (kConfig.bias_tiles) {
      walk.features.load_tile(block_of(job), walk.kv_tile * kConfig.block_kv, params.bias,
                              shared.bias(stage), full);
    }
  }
  // The coordinates of a job that operands need.
  ATTNJIT_DEVICE Block block_of(const BackwardJob& job) const {
    Block block = walk.block;
    block.head = job.head;
    block.first_query = job.tile * kConfig.block_q;
    return block;
  }
  // Loads the preprocess kernel's results for a tile's rows, kWords each. Rows past a packed
  // sequence's end read the padding rows at the end of the array, which are marked dead.
  template <int kWords, class T>
  ATTNJIT_DEVICE void load_rows(uint32 target, const T* rows, uint32 full,
                                const typename Walk::Job& job) {
    const auto [begin, count] = walk.padded_rows_of(job.head);
    const int row = job.tile * kConfig.block_q;
    if constexpr (!Features::kPacksSequences || kConfig.block_q == kRowBlock) {
      ptx::bulk_load(target, rows + (begin + row) * kWords, kConfig.block_q * kWords * 4, full);
    } else {
      const int64 dead = (job.head + int64{1}) * params.base.padded_rows - kRowBlock;
#pragma unroll
      for (int i = 0; i < kConfig.block_q; i += kRowBlock) {
        const int64 first = row + i < count ? begin + row + i : dead;
        ptx::bulk_load(target + i * kWords * 4, rows + first * kWords, kRowBlock * kWords * 4,
                       full);
      }
    }
  }
};

// Loads K and V. With a second buffer, K is loaded while the previous work tile is computed, and V
// after the last dP of that tile. K and V with rows to be zero-filled are loaded together, because
// the zero-fill of the previous work tile is complete by then.
template <DkvWgmmaConfig kConfig, class Features>
struct BackwardKeyProducer {
  const DkvWgmmaParams& params;
  BackwardShared<kConfig> shared;
  BackwardWalk<kConfig, Features> walk;

  ATTNJIT_DEVICE BackwardKeyProducer(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    for (uint32 number = 0; enter_work<kConfig>(shared, walk, number); ++number) {
      load(number);
      if (!kConfig.loops_over_work()) return;
      shared.leave_work(number);
    }
  }

 private:
  ATTNJIT_DEVICE void load(uint32 number) {
    const bool zero_fills = walk.zero_fills_keys(walk.keys_of_head());
    if (!zero_fills) load_k(number, shared.k_full(number), kConfig.k_bytes());
    if (number != 0) ptx::barrier_wait(shared.v_empty(), number - 1 & 1);
    if (zero_fills) load_k(number, shared.keys_landed(), kConfig.k_bytes() + kConfig.v_bytes());
    if (!ptx::elect_lane()) return;
    if (!zero_fills) ptx::barrier_arrive_expecting(shared.v_full(), kConfig.v_bytes());
    load_resident_v<kConfig>(params, walk, shared.v(),
                             zero_fills ? shared.keys_landed() : shared.v_full());
  }
  ATTNJIT_DEVICE void load_k(uint32 number, uint32 full, int bytes) {
    // With two buffers, this one was released before the work tile was published.
    if (kConfig.k_buffers() == 1) shared.await_left(number, 1);
    if (!ptx::elect_lane()) return;
    ptx::barrier_arrive_expecting(full, bytes);
    load_resident_k<kConfig>(params, walk, shared.k(number), full);
  }
};

// Follows the walk and zero-fills the rows of K and V that no query sees, and the dead rows of Q
// and dO.
template <DkvWgmmaConfig kConfig, class Features>
struct DkvWgmmaZeroFill {
  using Shared = BackwardShared<kConfig>;

  const DkvWgmmaParams& params;
  Shared shared;
  BackwardWalk<kConfig, Features> walk;

  ATTNJIT_DEVICE DkvWgmmaZeroFill(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  ATTNJIT_DEVICE void run() {
    typename Shared::StageState state = {};
    uint32 phases = 0;  // of landed(), which few tiles go through; a bit for each stage
    uint32 keys_phase = 0;
    for (uint32 number = 0; enter_work<kConfig>(shared, walk, number); ++number) {
      if (zero_fill_resident_keys<kConfig>(walk, shared.k(number), shared.v(), shared.keys_landed(),
                                           keys_phase)) {
        keys_phase ^= 1;
        publish_rows(shared.k_full(number));
        publish_rows(shared.v_full());
      }
      for (auto job = walk.next(); job.exists(); job = walk.next(), state.advance()) {
        if (!job.zero_fills) continue;
        const uint32 stage = state.slot();
        ptx::barrier_wait(shared.landed(stage), phases >> stage & 1);
        phases ^= 1u << stage;
        const LiveRows live = walk.looked_up.template broadcast<kConfig.block_q>(job.lane);
        const auto dead = [&](int row) { return !live.has(row); };
        clear_rows<typename Shared::QTile>(shared.q(stage), dead);
        clear_rows<typename Shared::DoutTile>(shared.dout(stage), dead);
        publish_rows(shared.full(stage));
      }
      if (!kConfig.loops_over_work()) return;
      shared.leave_work(number);
    }
  }
};

}  // namespace attnjit::kernel
