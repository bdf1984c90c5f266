#pragma once
#include "attnjit/score/feature.cuh"

// Policies for a mask, a bias or a dbias that has a plane for each group of neighbouring batch
// elements. Each is the policy for a plane per batch element, which is told the group's number in
// place of the element's.
namespace attnjit::kernel {

// A feature of the scores.
template <class Inner>
struct BatchGroups : Inner {
  using Inner::Inner;

  ATTNJIT_DEVICE int group_of(int batch) const { return batch / this->params.batches_per_plane; }
  ATTNJIT_DEVICE Block group_of(Block block) const {
    block.batch = group_of(block.batch);
    return block;
  }

  ATTNJIT_DEVICE void begin(const Block& block) { Inner::begin(group_of(block)); }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team team, const Block& block, KeyRange& keys) {
    Inner::narrow(team, group_of(block), keys);
  }
  ATTNJIT_DEVICE TileUse tile_use(int batch, int head, int q_tile, int kv_tile) const requires
      requires(const Inner& f) {
    f.tile_use(batch, head, q_tile, kv_tile);
  }
  { return Inner::tile_use(group_of(batch), head, q_tile, kv_tile); }
  ATTNJIT_DEVICE void prefetch_tile(const Block& block, int first_key, const TensorMap& bias) {
    Inner::prefetch_tile(group_of(block), first_key, bias);
  }
  ATTNJIT_DEVICE void load_tile(const Block& block, int first_key, const TensorMap& bias,
                                uint32 tile, uint32 full) {
    Inner::load_tile(group_of(block), first_key, bias, tile, full);
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    Inner::finish(group_of(block), owner, row);
  }
};

// A gradient of the bias that is added up, on path mma or wgmma.
template <class Inner>
struct BatchGroupsGrad : Inner {
  using Inner::Inner;

  ATTNJIT_DEVICE void enter_head(Block block) {
    block.batch /= this->params.batches_per_plane;
    Inner::enter_head(block);
  }
  ATTNJIT_DEVICE float* sums_of(int batch, int head, int first_query, int first_key) const {
    return Inner::sums_of(batch / this->params.batches_per_plane, head, first_query, first_key);
  }
};

}  // namespace attnjit::kernel
