#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/wgmma/config.h"
#include "attnjit/ptx/load_if.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/pipeline_state.cuh"
#include "attnjit/tile/slab_tile.cuh"
#include "attnjit/tile/tile_use.h"

// Shared memory of the Hopper forward: buffers, barriers, and the jobs that the walk sends to the
// warps that multiply.
namespace attnjit::kernel {

// A tile of keys for the current block of rows.
struct ForwardJob {
  int tile;   // one past the last tile where a block of rows has none: zeros
  int needs;  // kMasks, kFirst, kUnseen; kEnd alone after the last job

  static constexpr int kMasks = 1;  // some of its keys are dropped
  static constexpr int kFirst = 2;  // the next block of rows begins
  static constexpr int kEnd = 4;
  // Consumer 0 sees none of its keys; of consumer w, the bit w places further left.
  static constexpr int kUnseen = 8;
  static constexpr int kNeedsBits = 6;

  ATTNJIT_DEVICE bool exists() const { return needs != kEnd; }
  ATTNJIT_DEVICE bool first() const { return (needs & kFirst) != 0; }
  // A masked step of rows that have begun and see keys of the tile.
  ATTNJIT_DEVICE bool masks_only(int consumer) const {
    return (needs & (kFirst | kEnd)) == 0 && !unseen_by(consumer);
  }
  ATTNJIT_DEVICE bool unseen_by(int consumer) const { return (needs >> consumer & kUnseen) != 0; }

  ATTNJIT_DEVICE uint32 as_word() const {
    return static_cast<uint32>(tile) << kNeedsBits | static_cast<uint32>(needs);
  }
  // From a word of lane 0.
  ATTNJIT_DEVICE static ForwardJob from(uint32 word) {
    const uint32 uniform = ptx::warp_broadcast(word, 0);
    return {static_cast<int>(uniform >> kNeedsBits),
            static_cast<int>(uniform & ((1u << kNeedsBits) - 1))};
  }
};

// Whether consumers skip tiles of which their rows see no key, because the edge of a window passes
// between the rows of two consumers.
template <ForwardWgmmaConfig kConfig, class Features>
inline constexpr bool kSkipsUnseen =
    Features::kSlides && !kConfig.pack_gqa && kConfig.block_kv < kConfig.block_q;

// Addresses in shared memory.
template <ForwardWgmmaConfig kConfig>
struct ForwardShared {
  static constexpr int kStages = kConfig.num_stages;
  static constexpr int kQueries = kConfig.q_buffers();
  static constexpr int kConsumers = kConfig.consumers();
  static constexpr int kTeams = kConfig.teams;
  static constexpr bool kSplitsQ = kConfig.splits_q();
  static constexpr int kQSubtiles = kSplitsQ ? kQueries : kQueries * kConsumers;
  using QueryState = PipelineState<kQueries>;
  using TileState = PipelineState<kStages>;
  using QTile = SlabTile<kConfig.q_buffer_rows(), kConfig.depth()>;
  using KTile = SlabTile<kConfig.block_kv, kConfig.depth()>;
  using VTile = SlabTile<kConfig.block_kv, kConfig.out_columns()>;
  using OutTile = SlabTile<kConfig.block_q, kConfig.head_dim_v>;  // in a buffer of Q
  static constexpr int kWorkSlots = 2;
  using WorkState = PipelineState<kWorkSlots>;

  const uint32 team = find_team();  // of the calling warp
  uint32 base = ptx::shared_base() + team * kConfig.team_bytes();

  ATTNJIT_DEVICE uint32 q_buffer(uint32 slot) const {
    return base + slot * kConfig.q_buffer_bytes();
  }
  // The state of a consumer in the ring of Q, after `rows` blocks of rows. A buffer of one subtile
  // serves one consumer after another.
  ATTNJIT_DEVICE static QueryState query_state(uint32 rows, int consumer) {
    return {kSplitsQ ? rows * kConsumers + consumer : rows};
  }
  // Each consumer has its own subtile of Q, with barriers and a buffer, so that its next rows load
  // once it has finished with the subtile.
  ATTNJIT_DEVICE static uint32 q_subtile(uint32 slot, int consumer) {
    return kSplitsQ ? slot : slot * kConsumers + consumer;
  }
  // A subtile: a QTile, or the consumer's rows of a QTile.
  ATTNJIT_DEVICE uint32 q(uint32 slot, int consumer) const {
    return q_buffer(slot) + (kSplitsQ ? 0 : consumer * QTile::rows_on(kConfig.kSubtileRows));
  }
  ATTNJIT_DEVICE uint32 k(uint32 slot) const {
    return base + kConfig.k_offset() + slot * kConfig.k_bytes();
  }
  ATTNJIT_DEVICE uint32 v(uint32 slot) const {
    return base + kConfig.v_offset() + slot * kConfig.v_bytes();
  }
  // 16 rows of ones, the operand that sums probabilities up.
  ATTNJIT_DEVICE uint32 ones() const { return base + kConfig.ones_offset(); }
  // 128 threads fill them.
  ATTNJIT_DEVICE void fill_ones(int thread) const {
    constexpr uint32 kPair = pair_of_ones(kConfig.dtype);
    ptx::store_shared_16(ones() + 16 * thread, {kPair, kPair, kPair, kPair});
    ptx::fence_async_proxy();  // wgmma reads them
  }
  // A consumer warp holds its subtile of Q until its rows of O have left, and tiles until it has
  // used them.
  ATTNJIT_DEVICE uint32 q_full(uint32 subtile) const { return barrier(subtile); }
  ATTNJIT_DEVICE uint32 q_empty(uint32 subtile) const { return barrier(kQSubtiles + subtile); }
  ATTNJIT_DEVICE uint32 k_full(uint32 slot) const { return tile_barrier(0, slot); }
  ATTNJIT_DEVICE uint32 k_empty(uint32 slot) const { return tile_barrier(1, slot); }
  ATTNJIT_DEVICE uint32 v_full(uint32 slot) const { return tile_barrier(2, slot); }
  ATTNJIT_DEVICE uint32 v_empty(uint32 slot) const { return tile_barrier(3, slot); }
  // V has landed and still has rows to be zero-filled.
  ATTNJIT_DEVICE uint32 v_landed(uint32 slot) const { return tile_barrier(4, slot); }

  // The producers request a planned work tile; the planning thread waits until the walking warps
  // have read the last one.
  ATTNJIT_DEVICE uint32 work_wanted() const { return plan() + 8 * 2 * kWorkSlots; }
  ATTNJIT_DEVICE uint32 work_full(uint32 slot) const { return plan() + 8 * slot; }
  ATTNJIT_DEVICE uint32 work_empty(uint32 slot) const { return plan() + 8 * (kWorkSlots + slot); }

  // The address of a thread's first maximum, where the config keeps them.
  ATTNJIT_DEVICE uint32 maxima(int consumer_thread) const {
    return base + kConfig.maxima_offset() + 4 * consumer_thread;
  }

  // One thread initialises the barriers. `walkers` warps read planned work tiles.
  ATTNJIT_DEVICE void init_barriers(int walkers) const {
    constexpr int kReaders = 4 * kConsumers;  // warps
    for (int i = 0; i < kQSubtiles; ++i) {
      ptx::barrier_init(q_full(i), 1);
      ptx::barrier_init(q_empty(i), 4);  // the warps of one consumer
    }
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(k_full(i), 1);
      ptx::barrier_init(k_empty(i), kReaders);
      ptx::barrier_init(v_full(i), 1);
      ptx::barrier_init(v_empty(i), kReaders);
      ptx::barrier_init(v_landed(i), 1);
    }
    if constexpr (kConfig.plans_work) {
      ptx::barrier_init(work_wanted(), 1);
      for (int i = 0; i < kWorkSlots; ++i) {
        ptx::barrier_init(work_full(i), 1);
        ptx::barrier_init(work_empty(i), walkers);
      }
    }
    ptx::barrier_init_fence();
  }

  // Words that the walk sends to the warps that multiply: with a subtile of Q, the four words of
  // its work tile; with K of a job, the next job, so that it is known a tile ahead; in the last
  // word, the very first job.
  static constexpr int kFirstJob = 4 * kQSubtiles + kStages;
  ATTNJIT_DEVICE static int job_word(uint32 tile_slot) {
    return 4 * kQSubtiles + static_cast<int>(tile_slot);
  }
  ATTNJIT_DEVICE static int work_word(uint32 subtile) { return static_cast<int>(4 * subtile); }
  ATTNJIT_DEVICE static int planned_word(uint32 work_slot) {
    return kFirstPlanned + static_cast<int>(4 * work_slot);
  }
  ATTNJIT_DEVICE void put_work(int word, const RowWorkTile& work) const {
    put(word, static_cast<uint32>(work.batch));
    put(word + 1, static_cast<uint32>(work.head));
    put(word + 2, static_cast<uint32>(work.q_tile));
    put(word + 3, static_cast<uint32>(work.split));
  }
  // All lanes of the warp call it.
  ATTNJIT_DEVICE RowWorkTile next_work(int word) const {
    const uint32 mine[4] = {take(word), take(word + 1), take(word + 2), take(word + 3)};
    const auto all = [&](int i) { return static_cast<int>(ptx::warp_broadcast(mine[i], 0)); };
    return {all(0), all(1), all(2), all(3)};
  }
  ATTNJIT_DEVICE void put(int word, uint32 value) const {
    ptx::store_shared_4(word_address(word), value);
  }
  // Only lane 0 reads, because only lane 0 arrives for the warp when a buffer has been used; the
  // others get 0.
  ATTNJIT_DEVICE uint32 take(int word) const {
    return ptx::load_shared_4_if(ptx::lane_index() == 0, word_address(word));
  }

 private:
  // Warps of the first warpgroup alternate, each other warpgroup is one team's. Warps call it
  // whole.
  ATTNJIT_DEVICE static uint32 find_team() {
    if constexpr (kTeams == 1) return 0;
    const int warp = ptx::warp_index();
    return static_cast<uint32>(warp < 4 ? warp % 2 : warp / 4 - 1);
  }
  static constexpr int kWordsOffset = 8 * (2 * kQSubtiles + 5 * kStages);
  static_assert(kWordsOffset + 4 * (kFirstJob + 1) <= ForwardWgmmaConfig::kControlBytes);
  static constexpr int kFirstPlanned =
      (ForwardWgmmaConfig::kControlBytes + 8 * (2 * kWorkSlots + 1) - kWordsOffset) / 4;
  static_assert(32 * kWorkSlots + 8 <= ForwardWgmmaConfig::kPlanBytes);

  ATTNJIT_DEVICE uint32 plan() const {
    return base + kConfig.control_offset() + ForwardWgmmaConfig::kControlBytes;
  }
  ATTNJIT_DEVICE uint32 barrier(uint32 index) const {
    return base + kConfig.control_offset() + 8 * index;
  }
  ATTNJIT_DEVICE uint32 tile_barrier(int kind, uint32 slot) const {
    return barrier(2 * kQSubtiles + kind * kStages + slot);
  }
  ATTNJIT_DEVICE uint32 word_address(int word) const {
    return base + kConfig.control_offset() + kWordsOffset + 4 * word;
  }
};

}  // namespace attnjit::kernel
