#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/wgmma/shared.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/schedule.cuh"
#include "attnjit/tile/team.cuh"

namespace attnjit::kernel {

// The walk of a thread block, by a warp. Each lane determines the use of one of 32 tiles of keys,
// so that a tile that a mask empties costs nothing. Where a warp zero-fills keys, it walks as well;
// with plans_work the producer requests work tiles for both.
template <ForwardWgmmaConfig kConfig, class Features, bool kAsks = false>
struct ForwardWalk {
  const ForwardWgmmaParams& params;
  Features features;
  Block block;
  KeyRange keys;
  TileRange tiles;        // not yet looked up
  RowWorkTile work_tile;  // of the block of rows
  uint32 left, masked;    // bits of the current 32 tiles, the last tile first: to come, with a mask
  uint32 unseen;          // kUnseen bits of the tile that the lane has looked up
  uint32 begun;           // of consumers that have a tile of the block of rows, the same bits
  int last;               // of these
  int round;              // of the schedule or the plan, the next one
  bool first;             // no tile of the block of rows has been returned
  bool more;              // with plans_work: the plan has not ended
  bool asked;             // with plans_work: for the next work tile

  ATTNJIT_DEVICE ForwardWalk(const ForwardWgmmaParams& p, const Features& f)
      : params(p),
        features(f),
        tiles{0, 0},
        work_tile{},
        left(0),
        masked(0),
        unseen(0),
        begun(0),
        last(0),
        round(0),
        first(false),
        more(true),
        asked(false) {}

  // The next job. Tiles go backward: tiles that a diagonal or the end cuts come first.
  ATTNJIT_DEVICE ForwardJob next() {
    while (true) {
      while (left == 0 && tiles.next < tiles.end) look_ahead();
      if (left != 0) {
        const int lane = ptx::lowest_bit(left), tile = last - lane;
        const bool masks = (masked >> lane & 1) != 0;
        left &= left - 1;
        int needs = masks ? ForwardJob::kMasks : 0;
        if constexpr (kNamesUnseen) {
          const uint32 bits = masks ? ptx::warp_broadcast(unseen, lane) : 0;
          while (left == 0 && tiles.next < tiles.end) look_ahead();
          needs |= static_cast<int>(to_skip(bits));
        }
        if constexpr (kConfig.plans_work) {
          if (left == 0 && tiles.next >= tiles.end) ask();
        }
        return job(tile, needs);
      }
      if (first) return job(ceil_div(params.base.seqlen_kv, kConfig.block_kv), ForwardJob::kMasks);
      if constexpr (kConfig.plans_work) {
        take_planned();
        if (!more) return {0, ForwardJob::kEnd};
        enter_rows();
      } else {
        ForwardWork work;
        do {
          work = params.schedule.work(static_cast<int>(ptx::block_index()), round++);
        } while (work.plane == ForwardWork::kNothing);
        if (work.plane == ForwardWork::kEnd) return {0, ForwardJob::kEnd};
        begin_rows(work);
      }
    }
  }

  static constexpr bool kZeroFills = Features::kNarrows || Features::kPicksKeys;

  // Whether V may have rows in the tile that no query of the block of rows sees. Whatever is stored
  // there, a NaN included, would reach the output as 0 * NaN.
  ATTNJIT_DEVICE bool zero_fills_keys(const ForwardJob& job) const {
    if (!kZeroFills || (job.needs & ForwardJob::kMasks) == 0) return false;
    const int begin = job.tile * kConfig.block_kv, end = begin + kConfig.block_kv;
    // Keys past the tensor are zeros already; keys past a packed sequence belong to another one.
    const bool past = !Features::kPacksSequences && end > params.base.seqlen_kv;
    const int limit = past ? params.base.seqlen_kv : end;
    return Features::kPicksKeys || begin < keys.begin || limit > keys.end;
  }
  ATTNJIT_DEVICE bool zero_fills_key(int key) const {
    if (!Features::kPacksSequences && key >= params.base.seqlen_kv) return false;
    return key < keys.begin || key >= keys.end || !features.reads_key(key);
  }

 private:
  ATTNJIT_DEVICE void look_ahead() {
    last = tiles.end - 1;
    const int tile = last - ptx::lane_index();
    const TileUse use = tile < tiles.next ? TileUse::kSkip : features.use_of_lane(block, tile);
    left = ptx::warp_ballot(use != TileUse::kSkip);
    masked = ptx::warp_ballot(use == TileUse::kMasked);
    if constexpr (kNamesUnseen) unseen = find_unseen(tile);
    tiles.end -= 32;
  }
  static constexpr bool kNamesUnseen = kAsks && kSkipsUnseen<kConfig, Features>;
  // Finds the consumers whose rows see no key of the tile, by narrow() of their rows alone.
  ATTNJIT_DEVICE uint32 find_unseen(int tile) {
    uint32 found = 0;
#pragma unroll 1
    for (int consumer = 0; consumer < kConfig.consumers(); ++consumer) {
      Block rows = block;
      rows.first_row = block.first_row + consumer * kConfig.kSubtileRows;
      const int end = rows.first_row + kConfig.kSubtileRows;
      rows.end_row = end < block.end_row ? end : block.end_row;
      rows.first_query = rows.first_row;
      rows.end_query = rows.end_row;
      KeyRange seen = keys;
      features.narrow(WarpTeam(), rows, seen);
      const int first_key = tile * kConfig.block_kv;
      if (first_key >= seen.end || first_key + kConfig.block_kv <= seen.begin) {
        found |= static_cast<uint32>(ForwardJob::kUnseen) << consumer;
      }
    }
    return found;
  }
  // Picks the consumers that skip a tile out of those that see no key of it: each consumer has a
  // tile of every block of rows, if only the last one.
  ATTNJIT_DEVICE uint32 to_skip(uint32 bits) {
    if (left == 0) bits &= begun;
    begun |= ~bits;
    return bits;
  }
  ATTNJIT_DEVICE ForwardJob job(int tile, int needs) {
    if (first) needs |= ForwardJob::kFirst;
    first = false;
    return {tile, needs};
  }
  // Requests the next work tile with the last tile of the current one: no earlier, so that thread
  // blocks that finish sooner take more work tiles.
  ATTNJIT_DEVICE void ask() {
    const bool wants = kAsks && !asked && ptx::lane_index() == 0;
    ptx::barrier_arrive_if(wants, ForwardShared<kConfig>().work_wanted());
    asked = true;
  }
  // The next work tile of plan_rows().
  ATTNJIT_DEVICE void take_planned() {
    ask();
    asked = false;
    const ForwardShared<kConfig> shared;
    const typename ForwardShared<kConfig>::WorkState state{static_cast<uint32>(round++)};
    ptx::barrier_wait(shared.work_full(state.slot()), state.full());
    work_tile = shared.next_work(shared.planned_word(state.slot()));
    ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.work_empty(state.slot()));
    more = work_tile.split >= 0;
  }
  ATTNJIT_DEVICE void begin_rows(const ForwardWork& work) {
    work_tile = find_rows<kConfig.block_q, kConfig.pack_gqa_heads()>(
        params.base, features, {static_cast<uint32>(work.plane), static_cast<uint32>(work.tile)});
    enter_rows();
  }
  ATTNJIT_DEVICE void enter_rows() {
    const ForwardParams& p = params.base;
    block = locate_rows<kConfig.block_q, kConfig.pack_gqa_heads()>(p, features, work_tile);
    features.begin(block);
    keys = {0, block.kv_len};
    features.narrow(WarpTeam(), block, keys);
    tiles = split_tiles(keys, kConfig.block_kv, p.num_splits, work_tile.split);
    first = true;
    begun = 0;
  }
};

}  // namespace attnjit::kernel
