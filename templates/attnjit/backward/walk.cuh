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

  static constexpr int kParts = kConfig.key_parts;  // of keys, which tiles are looked up by

  uint32 left = 0, masked = 0,
         with_dead = 0;  // of the 32 tiles: those to come, with a mask, with dead rows
  uint32 part_kept[kParts], part_masked[kParts];  // those with a kept score in a part, with a mask
  int lane_head, lane_tile;                       // the lane's
  int turn = 0;  // the part that is to get the next tile, if it has one

  ATTNJIT_DEVICE Job next() {
    while (left == 0 && next_position < end_position) look_ahead();
    if (left == 0) return {{BackwardJob::kNone, 0, false}, false, 0};
    const int lane = ptx::lowest_bit(of_turn());
    left &= kParts > 1 ? ~(1u << lane) : left - 1;
    Job job = {{of_lane(lane_head, lane), of_lane(lane_tile, lane), (masked >> lane & 1) != 0},
               (with_dead >> lane & 1) != 0,
               lane};
    if constexpr (kParts > 1) {
      job.parts = parts_of(lane);
      if (job.parts.kept != 3) turn = job.parts.keeps(0) ? 1 : 0;
    }
    return job;
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
    if constexpr (kParts > 1) {
      look_up_parts(position < end_position);
      return;
    }
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
  // The tiles to come, those of the part whose turn it is if there are any: each part belongs to
  // another warpgroup.
  ATTNJIT_DEVICE uint32 of_turn() const {
    if constexpr (kParts == 1) return left;
    const uint32 of_part = left & (turn == 0 ? part_kept[0] : part_kept[kParts - 1]);
    return of_part != 0 ? of_part : left;
  }
  // The same part by part, if the lane has a tile.
  ATTNJIT_DEVICE void look_up_parts(bool has_tile) {
    looked_up = {};
    if (has_tile) looked_up = this->load_live(lane_head, lane_tile);
    const bool exists = looked_up.any() && overlaps(this->keys_of(lane_tile));
    const bool drops = exists && drops_keys();
    left = 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const TileUse use = exists ? features.template part_use<kParts>(block.batch, lane_head,
                                                                      lane_tile, kv_tile, part)
                                 : TileUse::kSkip;
      part_kept[part] = ptx::warp_ballot(use != TileUse::kSkip);
      part_masked[part] = ptx::warp_ballot(use == TileUse::kMasked || drops) & part_kept[part];
      left |= part_kept[part];
    }
    with_dead = ptx::warp_ballot(exists && has_dead_rows()) & left;
  }
  ATTNJIT_DEVICE KeyParts parts_of(int lane) const {
    KeyParts parts;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      parts.kept |= (part_kept[part] >> lane & 1) << part;
      parts.masked |= (part_masked[part] >> lane & 1) << part;
    }
    return parts;
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
