#pragma once
#include "attnjit/backward/block.cuh"
#include "attnjit/backward/job.cuh"
#include "attnjit/backward/key_walk.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/live_rows.cuh"
#include "attnjit/tile/team.cuh"
#include "attnjit/tile/tile_use.h"

namespace attnjit::kernel {

// The walk of a thread block, by a warp. Each lane finds out about one of 32 tiles of queries, so
// that a tile costs the warp little more than a bit: it has to keep ahead of the products.
template <auto kConfig, class Features>
struct BackwardWalk : KeyTileWalk<BackwardBlock<kConfig.scores(), Features, SingleThread>> {
  using Base = KeyTileWalk<BackwardBlock<kConfig.scores(), Features, SingleThread>>;
  using Base::Base;
  using Base::block, Base::features, Base::kv_tile, Base::params;
  using Base::end_position, Base::first_head, Base::looked_up, Base::next_position;

  // A tile of queries, and whether it has dead rows inside of the tensor, or another sequence's:
  // whatever is stored there, a NaN included, would reach dk and dv as 0 * NaN.
  struct Job : BackwardJob {
    bool zero_fills;
    int lane;  // that knows its live rows
  };

  uint32 left = 0, masked = 0,
         with_dead = 0;      // of the 32 tiles: those to come, with a mask, with dead rows
  int lane_head, lane_tile;  // the lane's

  ATTNJIT_DEVICE Job next() {
    while (left == 0 && next_position < end_position) look_ahead();
    if (left == 0) return {{BackwardJob::kNone, 0, false}, false, 0};
    const int lane = ptx::lowest_bit(left);
    left &= left - 1;
    return {{of_lane(lane_head, lane), of_lane(lane_tile, lane), (masked >> lane & 1) != 0},
            (with_dead >> lane & 1) != 0,
            lane};
  }

  // visit(head, tile) for each tile of queries that next() would pass over.
  template <class Visit>
  ATTNJIT_DEVICE void for_each_skipped(Visit visit) {
    while (next_position < end_position) {
      const int positions = end_position - next_position;
      look_ahead();
      uint32 skipped = ~left & static_cast<uint32>(first(positions));
      for (; skipped != 0; skipped &= skipped - 1) {
        const int lane = ptx::lowest_bit(skipped);
        visit(of_lane(lane_head, lane), of_lane(lane_tile, lane));
      }
    }
  }

  // The number of thread blocks before this one where dq of a tile of queries is added up in order:
  // those of the keys that its queries see, mask aside.
  ATTNJIT_DEVICE uint32 order_of(int tile) {
    const KeyRange seen = this->keys_of(tile);
    return params.last_keys_first != 0 ? (seen.end - 1) / kConfig.block_kv - kv_tile
                                       : kv_tile - seen.begin / kConfig.block_kv;
  }

  // Whether K and V have rows that no query of the block's heads sees, which would reach dq. Those
  // past a tensor are zeros already, those past a packed sequence are another's.
  ATTNJIT_DEVICE bool zero_fills_keys(const KeyRange& keys) const {
    const int begin = kv_tile * kConfig.block_kv, end = begin + kConfig.block_kv;
    return begin < keys.begin ||
           (end > keys.end && (Features::kPacksSequences || block.seqlen_kv > keys.end)) ||
           Features::kPicksKeys;
  }
  // The block's keys that any of these queries sees, a bit each; a warp calls it whole.
  ATTNJIT_DEVICE LiveRows read_keys(const KeyRange& keys) const {
    LiveRows read;
#pragma unroll
    for (int i = 0; i < kConfig.block_kv / 32; ++i) {
      const int key = kv_tile * kConfig.block_kv + 32 * i + ptx::lane_index();
      const bool inside = key >= keys.begin && key < keys.end;
      read.set(i, ptx::warp_ballot(inside && features.reads_key(key)));
    }
    return read;
  }

 private:
  ATTNJIT_DEVICE static int of_lane(int value, int lane) {
    return static_cast<int>(ptx::warp_broadcast(static_cast<uint32>(value), lane));
  }
  // Turns the lane to the head and the tile at `position`: some heads come abreast, tile by tile,
  // then the next ones.
  ATTNJIT_DEVICE void find_pair(int position) {
    const int abreast = params.heads_abreast, tiles = this->num_q_tiles();
    const int row = position / abreast, tile = row % tiles;
    lane_head = first_head + row / tiles * abreast + position % abreast;
    lane_tile = params.last_queries_first != 0 ? tiles - 1 - tile : tile;
  }
  ATTNJIT_DEVICE void look_ahead() {
    const int position = next_position + ptx::lane_index();
    next_position += 32;
    find_pair(position);
    const TileUse use =
        position < end_position ? this->use_of(lane_head, lane_tile) : TileUse::kSkip;
    // With ordered or owned dq, tiles without a kept score are visited as well: other thread blocks
    // wait for them, and the first and the last one store dq.
    const bool used =
        kConfig.walks_all() ? position < end_position && looked_up.any() : use != TileUse::kSkip;
    const bool exists = used && overlaps(this->keys_of(lane_tile));
    left = ptx::warp_ballot(exists);
    masked = ptx::warp_ballot(exists && (use != TileUse::kPlain || drops_keys()));
    with_dead = ptx::warp_ballot(exists && has_dead_rows());
  }
  ATTNJIT_DEVICE bool overlaps(const KeyRange& seen) const {
    const int first = kv_tile * kConfig.block_kv;
    return seen.begin < first + kConfig.block_kv && seen.end > first;
  }
  // Of the lane's tile.
  ATTNJIT_DEVICE bool drops_keys() {
    constexpr int kUnits = kConfig.block_kv / kConfig.scores().keys();  // of use()
    Block rows = block;
    this->set_rows(rows, lane_tile);
    bool drops = false;
#pragma unroll 1
    for (int i = 0; i < kUnits; ++i) {
      drops |= features.use(rows, kv_tile * kUnits + i) != TileUse::kPlain;
    }
    return drops;
  }
  ATTNJIT_DEVICE bool has_dead_rows() const {
    const int left_rows = block.seqlen_q - lane_tile * kConfig.block_q;
    const bool ends = !Features::kPacksSequences && left_rows < kConfig.block_q;
    const int rows = ends ? left_rows : kConfig.block_q;
    return (~looked_up.low & first(rows)) != 0 || (~looked_up.high & first(rows - 64)) != 0;
  }
  // The lowest `count` bits.
  ATTNJIT_DEVICE static uint64 first(int count) {
    return count <= 0 ? 0 : count >= 64 ? ~0ull : (1ull << count) - 1;
  }
};

}  // namespace attnjit::kernel
