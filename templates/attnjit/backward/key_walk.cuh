#pragma once
#include "attnjit/backward/block.cuh"
#include "attnjit/tile/schedule.cuh"

namespace attnjit::kernel {

// The walk of a thread block that keeps a tile of keys: over the tiles of queries of all heads that
// share it, or a part of them. `Base` is a BackwardBlock.
template <class Base>
struct KeyTileWalk : Base {
  using Base::Base;
  using Base::block, Base::features, Base::params;
  using Base::kBlockKv, Base::kBlockQ, Base::kGqaRatio;

  // A tile of queries to be worked on; none after the last.
  struct Job {
    int head, tile;
    TileUse use;  // what the mask says
    LiveRows live;
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  int kv_tile, first_head;
  int next_head, next_tile;         // of the block's share of (head, tile of queries) pairs
  int next_position, end_position;  // the same as numbers
  LiveRows looked_up;               // of the position that the lane has looked up

  // Finds the block's keys. First keys usually come first: under a causal mask they take longest.
  ATTNJIT_DEVICE void locate() {
    locate(find_plane_tile(params, params.num_kv_tiles * params.num_splits));
  }
  // Turns to a tile of keys of a plane, and to a share of its queries.
  ATTNJIT_DEVICE void locate(const PlaneTile& work) {
    const uint32 plane = work.plane;
    const int tile = static_cast<int>(work.tile / params.num_splits);
    const int split = static_cast<int>(work.tile % params.num_splits);
    kv_tile = params.last_keys_first != 0 ? params.num_kv_tiles - 1 - tile : tile;
    const int kv_heads = params.num_heads_q / kGqaRatio;
    const bool batch_fastest = params.batch_fastest != 0;
    int batch = static_cast<int>(batch_fastest ? plane % params.batch : plane / kv_heads);
    const int kv_head = static_cast<int>(batch_fastest ? plane / params.batch : plane % kv_heads);
    first_head = kv_head * kGqaRatio;
    kv_tile = features.find_keys(batch, kv_tile, kBlockKv);
    this->enter_batch(batch, first_head);
    const int positions = kGqaRatio * this->num_q_tiles();
    const int share = (positions + params.num_splits - 1) / params.num_splits;
    next_position = split * share;
    next_head = first_head + (positions == 0 ? 0 : next_position / this->num_q_tiles());
    next_tile = positions == 0 ? 0 : next_position % this->num_q_tiles();
    end_position = next_position + share < positions ? next_position + share : positions;
  }

  // Whether the block has keys: packed sequences leave numbers of tiles over.
  ATTNJIT_DEVICE bool has_keys() const {
    return !Base::kPacksSequences || kv_tile * kBlockKv < block.seqlen_kv;
  }

  // The use of a tile of queries; looks up its live rows as well.
  ATTNJIT_DEVICE TileUse use_of(int head, int tile) {
    looked_up = this->load_live(head, tile);
    return looked_up.any() ? features.tile_use(block.batch, head, tile, kv_tile) : TileUse::kSkip;
  }
  // The next job; skip(head, tile) is told of each tile before it that has no kept score.
  template <class Skip>
  ATTNJIT_DEVICE Job next_job(Skip skip) {
    while (next_position < end_position) {
      Job job = {next_head, next_tile, TileUse::kSkip, {}};
      const int position = next_position++;
      if (++next_tile == this->num_q_tiles()) {
        next_tile = 0;
        ++next_head;
      }
      job.use = this->look_up(position, [&](int index) {
        if (index >= end_position) return TileUse::kSkip;
        return use_of(first_head + index / this->num_q_tiles(), index % this->num_q_tiles());
      });
      const KeyRange seen = this->keys_of(job.tile);
      const int first_key = kv_tile * kBlockKv;
      if (job.exists() && seen.begin < first_key + kBlockKv && seen.end > first_key) {
        job.live = looked_up.template broadcast<kBlockQ>(position & 31);
        return job;
      }
      skip(job.head, job.tile);
    }
    return {0, 0, TileUse::kSkip, {}};
  }
};

}  // namespace attnjit::kernel
