#pragma once
#include "attnjit/score/feature.cuh"

namespace attnjit::kernel {

// Features as the backward sees them: the verbs of the forward, called for the part of a tile that
// a warp computes, and three more, which a feature may lack:
//
//   TileUse tile_use(batch, head, q_tile, kv_tile)   what a whole tile needs
//   TileUse part_use<kParts>(batch, head, q_tile, kv_tile, part)   what a part of its keys needs
//   void prefetch(team, block, head, q_tile, kv_tile)   the tile is next; all of the team call it
template <class... Features>
struct GradientFeatures : FeatureSet<Features...> {
  using FeatureSet<Features...>::FeatureSet;

  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    TileUse lowest = TileUse::kPlain;
    (lower<Features>(lowest, batch, head, q_tile, kv_tile), ...);
    return lowest;
  }
  // Of a feature without a part_use() the parts need what the tile does.
  template <int kParts>
  ATTNJIT_DEVICE TileUse part_use(int batch, int head, int q_tile, int kv_tile, int part) const {
    TileUse lowest = TileUse::kPlain;
    (lower_part<kParts, Features>(lowest, batch, head, q_tile, kv_tile, part), ...);
    return lowest;
  }
  template <class Team>
  ATTNJIT_DEVICE void prefetch(Team team, const Block& block, int head, int q_tile,
                               int kv_tile) const {
    (prefetch_one<Features>(team, block, head, q_tile, kv_tile), ...);
  }

 private:
  template <class F, class Team>
  ATTNJIT_DEVICE void prefetch_one(Team team, const Block& block, int head, int q_tile,
                                   int kv_tile) const {
    if constexpr (requires(const F& f) { f.prefetch(team, block, head, q_tile, kv_tile); }) {
      F::prefetch(team, block, head, q_tile, kv_tile);
    }
  }
  template <class F>
  ATTNJIT_DEVICE void lower(TileUse& lowest, int batch, int head, int q_tile, int kv_tile) const {
    if constexpr (requires(const F& f) { f.tile_use(batch, head, q_tile, kv_tile); }) {
      const TileUse use = F::tile_use(batch, head, q_tile, kv_tile);
      lowest = use < lowest ? use : lowest;
    }
  }
  template <int kParts, class F>
  ATTNJIT_DEVICE void lower_part(TileUse& lowest, int batch, int head, int q_tile, int kv_tile,
                                 int part) const {
    if constexpr (requires(const F& f) {
                    f.template part_use<kParts>(batch, head, q_tile, kv_tile, part);
                  }) {
      const TileUse use = F::template part_use<kParts>(batch, head, q_tile, kv_tile, part);
      lowest = use < lowest ? use : lowest;
    } else {
      lower<F>(lowest, batch, head, q_tile, kv_tile);
    }
  }
};

}  // namespace attnjit::kernel
