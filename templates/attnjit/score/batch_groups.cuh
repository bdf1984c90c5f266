#pragma once
#include "attnjit/score/batch_groups_params.h"
#include "attnjit/score/feature.cuh"

// Policies for a mask, a bias or a dbias whose planes batch elements share in groups. Each wraps
// the policy for a plane per batch element and passes the plane's number instead of the element's.
namespace attnjit::kernel {

// The plane of a batch element, for both policies below.
template <class Inner>
struct Grouping : Inner {
  const BatchCycle& cycle;

  template <class Params>
  ATTNJIT_DEVICE explicit Grouping(const Grouped<Params>& p) : Inner(p), cycle(p.cycle) {}

  ATTNJIT_DEVICE int group_of(int batch) const {
    return cycle.plane_of(static_cast<uint32>(batch) /
                          static_cast<uint32>(this->params.batches_per_plane));
  }
};

// A feature of the scores.
template <class Inner>
struct BatchGroups : Grouping<Inner> {
  using Grouping<Inner>::Grouping, Grouping<Inner>::group_of;

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

// A gradient of the bias that is added up, on path mma or wgmma, or summed by a separate kernel.
template <class Inner>
struct BatchGroupsGrad : Grouping<Inner> {
  using Grouping<Inner>::Grouping;

  ATTNJIT_DEVICE void enter_head(Block block) {
    block.batch = this->group_of(block.batch);
    Inner::enter_head(block);
  }
  ATTNJIT_DEVICE float* sums_of(int batch, int head, int first_query, int first_key) const {
    return Inner::sums_of(this->group_of(batch), head, first_query, first_key);
  }
  ATTNJIT_DEVICE int first_sharer(int plane, int) const {
    return this->cycle.first_run(plane) * this->params.batches_per_plane;
  }
  ATTNJIT_DEVICE int sharer_offset(int index) const {
    const int neighbours = this->params.batches_per_plane;
    const int planes = static_cast<int>(this->cycle.planes);
    return index / neighbours * planes * neighbours + index % neighbours;
  }
};

}  // namespace attnjit::kernel
