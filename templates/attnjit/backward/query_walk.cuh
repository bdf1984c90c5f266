#pragma once
#include "attnjit/backward/block.cuh"
#include "attnjit/tile/schedule.cuh"

namespace attnjit::kernel {

// The walk of a thread block that keeps a tile of queries of one head: over the tiles of keys that
// they see. `Base` is a BackwardBlock.
template <class Base>
struct QueryTileWalk : Base {
  using Base::Base;
  using Base::block, Base::features, Base::params;
  using Base::kBlockKv, Base::kBlockQ, Base::kGqaRatio;

  // A tile of keys to be worked on; none after the last.
  struct Job {
    int tile;
    TileUse use;  // what the mask says
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  int q_tile_index;
  KeyRange keys;
  int next_tile, end_tile;

  // Finds the block's rows. Later rows come first: under a causal mask they take longest.
  ATTNJIT_DEVICE void locate() {
    const uint32 tiles = params.num_q_tiles;
    // Planes are query heads here.
    const struct {
      uint32 section_planes, num_planes;
    } heads = {static_cast<uint32>(params.section_planes) * kGqaRatio,
               static_cast<uint32>(params.num_planes) * kGqaRatio};
    const auto [plane, tile] = find_plane_tile(heads, tiles);
    int batch = static_cast<int>(plane / params.num_heads_q);
    q_tile_index =
        features.template find_queries<1>(batch, static_cast<int>(tiles - 1 - tile), kBlockQ);
    this->enter_batch(batch, static_cast<int>(plane % params.num_heads_q));
    this->set_rows(block, q_tile_index);
    keys = this->keys_of(q_tile_index);
    next_tile = keys.begin / kBlockKv;
    end_tile = (keys.end + kBlockKv - 1) / kBlockKv;
  }

  // Whether the block has queries: packed sequences leave numbers of tiles over.
  ATTNJIT_DEVICE bool has_queries() const {
    return !Base::kPacksSequences || block.first_row < block.seqlen_q;
  }

  ATTNJIT_DEVICE Job next_job() {
    while (next_tile < end_tile) {
      const int tile = next_tile++;
      const TileUse use = this->look_up(tile, [&](int index) {
        return index < end_tile ? features.tile_use(block.batch, block.head, q_tile_index, index)
                                : TileUse::kSkip;
      });
      if (use != TileUse::kSkip) return {tile, use};
    }
    return {0, TileUse::kSkip};
  }
};

}  // namespace attnjit::kernel
