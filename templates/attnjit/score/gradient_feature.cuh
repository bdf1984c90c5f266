#pragma once
#include "attnjit/score/feature.cuh"

namespace attnjit::kernel {

// Features as the backward sees them: the verbs of the forward, called for the part of a tile that
// a warp computes, and one that only a mask has:
//
//   TileUse tile_use(batch, head, q_tile, kv_tile)   what a whole tile needs
template <class... Features>
struct GradientFeatures : FeatureSet<Features...> {
  using FeatureSet<Features...>::FeatureSet;

  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const {
    TileUse lowest = TileUse::kPlain;
    (lower<Features>(lowest, batch, head, q_tile, kv_tile), ...);
    return lowest;
  }

 private:
  template <class F>
  ATTNJIT_DEVICE void lower(TileUse& lowest, int batch, int head, int q_tile, int kv_tile) const {
    if constexpr (requires(const F& f) { f.tile_use(batch, head, q_tile, kv_tile); }) {
      const TileUse use = F::tile_use(batch, head, q_tile, kv_tile);
      lowest = use < lowest ? use : lowest;
    }
  }
};

}  // namespace attnjit::kernel
