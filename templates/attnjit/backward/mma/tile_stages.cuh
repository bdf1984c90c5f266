#pragma once
#include "attnjit/backward/mma/scores.cuh"

namespace attnjit::kernel {

// Tiles of score gradients whose queries and keys both change from one to the next: `Scores`, which
// is GradientScores, with buffers for all that a tile takes. Shared memory:
// num_stages times [ Q | dO | K | V | lse and delta ].
template <BackwardMmaConfig kConfig, class Scores>
struct TileStages : Scores {
  using Scores::params;
  using Scores::Scores;
  using typename Scores::DoutTile, typename Scores::KTile, typename Scores::QTile,
      typename Scores::Tile, typename Scores::VTile;

  ATTNJIT_DEVICE uint32 stage(int slot) const {
    return ptx::shared_base() + slot * (kConfig.dbias_shared_bytes() / kConfig.num_stages);
  }
  ATTNJIT_DEVICE QTile q_tile(int slot) const { return {stage(slot)}; }
  ATTNJIT_DEVICE DoutTile dout_tile(int slot) const { return {stage(slot) + kConfig.q_bytes()}; }
  ATTNJIT_DEVICE KTile k_tile(int slot) const {
    return {stage(slot) + kConfig.q_bytes() + kConfig.dout_bytes()};
  }
  ATTNJIT_DEVICE VTile v_tile(int slot) const {
    return {stage(slot) + kConfig.q_bytes() + kConfig.dout_bytes() + kConfig.k_bytes()};
  }
  ATTNJIT_DEVICE uint32 rows(int slot) const { return stage(slot + 1) - kConfig.rows_bytes(); }

  // Starts loading a tile of the batch element at hand.
  ATTNJIT_DEVICE void load_tile(int slot, int head, int q_tile_index, int kv_tile) {
    const LiveRowsOf<kConfig.block_q> live = this->load_live(head, q_tile_index);
    this->template load_queries<kConfig.head_dim>(q_tile(slot), params.q, params.q_strides, head,
                                                  q_tile_index, live);
    this->template load_queries<kConfig.head_dim_v>(dout_tile(slot), params.dout,
                                                    params.dout_strides, head, q_tile_index, live);
    this->load_rows(rows(slot), head, q_tile_index);
    const KeyRange keys = this->keys_of_head();
    this->template load_keys<kConfig.head_dim>(k_tile(slot), params.k, params.k_strides, kv_tile,
                                               keys);
    this->template load_keys<kConfig.head_dim_v>(v_tile(slot), params.v, params.v_strides, kv_tile,
                                                 keys);
  }

  // visit(ds, slopes, span) for each span of the tile that lies in `slot`, whose rows are at hand.
  template <class Visit>
  ATTNJIT_DEVICE void for_each_span(int slot, int kv_tile, TileUse use, Visit visit) {
    typename Scores::RowNumbers lse, delta;
    this->read_lse(lse, rows(slot));
    this->read_delta(delta, rows(slot));
#pragma unroll
    for (int span = 0; span < Scores::kSpans; ++span) {
      Tile p, ds;
      typename Scores::Slopes slopes;
      this->scores(p, slopes, q_tile(slot), k_tile(slot), kv_tile, span, use);
      this->exponentiate(p, lse);
      this->score_gradients(ds, p, delta, dout_tile(slot), v_tile(slot), span);
      visit(ds, slopes, span);
    }
  }
};

}  // namespace attnjit::kernel
