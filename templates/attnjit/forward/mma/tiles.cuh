#pragma once
#include "attnjit/forward/mma/config.h"
#include "attnjit/forward/params.h"
#include "attnjit/forward/rows.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/tile/copy.cuh"
#include "attnjit/tile/shared_tile.cuh"
#include "attnjit/tile/team.cuh"
#include "attnjit/tile/tile_pages.cuh"

namespace attnjit::kernel {

// The rows and keys of a thread block of the portable forward: their addresses, the tiles of keys
// that count, and the copies of tiles to shared memory,
//
//   [ Q, at the end O | K: num_stages tiles | V: num_stages tiles ]
//
// swizzled as tile/shared_tile.cuh has it.
template <ForwardMmaConfig kConfig, class Features, ScoreShape kShape>
struct ForwardTiles {
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kRowTiles = kConfig.row_tiles();
  static constexpr int kStages = kConfig.num_stages;
  static constexpr int kHeads = kConfig.pack_gqa_heads();
  static constexpr bool kPacked = Features::kPacksSequences;
  static constexpr bool kPaged = Features::kPageSize > 0;
  using Team = BlockTeam<kThreads>;
  using QTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim()>;
  using OutTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim_v()>;
  using KTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim()>;
  using VTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim_v()>;

  // A tile of keys to compute; empty after the last.
  struct PlainJob {
    int tile;
    TileUse use;
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };
  struct PagedJob : PlainJob {
    TilePages<kConfig.block_kv, Features::kPageSize> pages;
  };
  using Job = TypeIf<kPaged, PagedJob, PlainJob>;
  struct Nothing {};

  const ForwardParams& params;
  Features features;
  Block block;
  KeyRange keys;
  TileRange tiles;  // of the block's share, not yet computed
  [[no_unique_address]] TypeIf<kPaged, Job, Nothing> ahead;  // the next one, where keys are paged
  const uint16 *k, *v;                                       // of the block's kv head

  ATTNJIT_DEVICE ForwardTiles(const ForwardParams& p, const Features& f) : params(p), features(f) {}

  ATTNJIT_DEVICE QTile q_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE OutTile out_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE KTile k_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + slot * kConfig.k_bytes()};
  }
  ATTNJIT_DEVICE VTile v_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + kStages * kConfig.k_bytes() +
            slot * kConfig.v_bytes()};
  }

  // The block's share of the keys. Computed anew at each use: a register through the main loop
  // costs more.
  ATTNJIT_DEVICE int split() const {
    return static_cast<int>(ptx::block_index() % params.num_splits);
  }

  ATTNJIT_DEVICE void locate() {
    block = locate_rows<kConfig.block_q, kHeads>(
        params, features,
        find_rows<kConfig.block_q, kHeads>(
            params, features, find_plane_tile(params, params.num_q_tiles * params.num_splits)));
    const int lane = ptx::lane_index();
    block.thread_row =
        block.first_row + ptx::warp_index() * 16 * kRowTiles + ScoreShape(kShape).lane_row(lane);
    block.thread_key = ScoreShape(kShape).lane_key(lane);
    const int kv_head = block.head / kConfig.gqa_ratio;
    k = keys_of(params.k, params.k_strides, kv_head);
    v = keys_of(params.v, params.v_strides, kv_head);
    features.begin(block);
    keys = {0, block.kv_len};
    features.narrow(Team(), block, keys);
    tiles = split_tiles(keys, kConfig.block_kv, params.num_splits, split());
  }

  // Address of a kv head: of the block's batch element, or in the first of all pages.
  ATTNJIT_DEVICE const uint16* keys_of(const void* base, const RowStrides& strides,
                                       int kv_head) const {
    const auto* const first = static_cast<const uint16*>(base);
    if constexpr (Features::kHasPools) return head_of(first, strides, 0, kv_head);
    return rows_of<kPacked>(first, strides, block, kv_head, block.kv_begin);
  }

  ATTNJIT_DEVICE PlainJob find_job() {
    while (tiles.next < tiles.end) {
      const int tile = Features::kLastFirst ? --tiles.end : tiles.next++;
      const TileUse use = features.use(block, tile);
      if (use != TileUse::kSkip) return {tile, use};
    }
    return {0, TileUse::kSkip};
  }
  ATTNJIT_DEVICE Job next_job() {
    if constexpr (kPaged) {
      return ahead;
    } else {
      return find_job();
    }
  }
  // Finds the job after the one whose copies have begun, where keys are paged: its pages come from
  // memory and must be known when its copies begin.
  ATTNJIT_DEVICE void look_ahead() {
    if constexpr (kPaged) {
      ahead = {find_job(), {}};
      if (!ahead.exists()) return;
      ahead.pages =
          features.template find_pages<kConfig.block_kv>(ahead.tile * kConfig.block_kv, keys);
    }
  }

  // Addresses of rows of the block's tile in a tensor, as a function of the row.
  template <class T>
  ATTNJIT_DEVICE auto row_address(T* base, const RowStrides& strides) const {
    T* const first = rows_of<kPacked>(base, strides, block, block.head, block.q_begin) +
                     (kHeads == 1 ? block.first_row * strides.row : 0);
    return [=, this](int row) {
      if constexpr (kHeads == 1) return first + row * strides.row;
      const RowOwner owner = owner_of<kHeads>(block, block.first_row + row);
      return first + owner.query * strides.row + (owner.head - block.head) * strides.head;
    };
  }
  ATTNJIT_DEVICE void load_q() {
    load_tile<kConfig.aligned, kConfig.head_dim, kThreads>(
        q_tile(), row_address(static_cast<const uint16*>(params.q), params.q_strides),
        [&](int row) { return block.first_row + row < block.end_row; });
  }
  // Keys that no query of the block sees are not read but zero-filled: a NaN there would reach the
  // output as 0 * NaN.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_keys(const Tile& tile, const uint16* head, const RowStrides& strides,
                                const Job& job) {
    const int first = job.tile * kConfig.block_kv;
    const auto seen = [&](int row) {
      const int key = first + row;
      return key >= keys.begin && key < keys.end && features.reads_key(key);
    };
    const auto source = [row_stride = strides.row, source = head + first * strides.row](int row) {
      return source + row * row_stride;
    };
    const auto load = [&](auto keep) {
      if constexpr (kPaged) {
        features.template load_keys<kConfig.aligned, kColumns, kThreads>(tile, job.pages, first,
                                                                         head, strides, keep);
      } else {
        load_tile<kConfig.aligned, kColumns, kThreads>(tile, source, keep);
      }
    };
    // With head_dim 256 a thread has many rows to test, and in most tiles all rows are read.
    // Narrower heads lose more by the second copy of the loop (H200, 2026-11-21: D256 + 1 to 2 %,
    // D128 - 6 %).
    const bool whole = first >= keys.begin && first + kConfig.block_kv <= keys.end;
    if (kColumns > 128 && whole) {
      load([&](int row) { return features.reads_key(first + row); });
      return;
    }
    load(seen);
  }
  ATTNJIT_DEVICE void load_k(int slot, const Job& job) {
    if (job.exists()) load_keys<kConfig.head_dim>(k_tile(slot), k, params.k_strides, job);
  }
  ATTNJIT_DEVICE void load_v(int slot, const Job& job) {
    if (job.exists()) load_keys<kConfig.head_dim_v>(v_tile(slot), v, params.v_strides, job);
  }
};

}  // namespace attnjit::kernel
