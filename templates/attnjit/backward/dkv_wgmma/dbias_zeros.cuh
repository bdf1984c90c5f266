#pragma once
#include "attnjit/backward/dkv_wgmma/producer.cuh"

namespace attnjit::kernel {

// The warp of the Hopper backward that completes a dbias which is stored tile by tile: it writes
// zeros where a walk skips a tile of queries. It follows the walk of the keys at the other end:
// under a causal mask the last keys have the fewest queries and the most zeros, the first keys the
// opposite, so that every thread block has about the same work.
template <DkvWgmmaConfig kConfig, class Features, class BiasGrad>
struct BackwardZeros {
  static_assert(!kConfig.loops_over_work());

  BackwardWalk<kConfig, Features> walk;
  const BiasGrad bias_grad;

  ATTNJIT_DEVICE BackwardZeros(const DkvWgmmaParams& p, const Features& f, const BiasGrad& g)
      : walk(p.base, f), bias_grad(g) {}

  ATTNJIT_DEVICE void run() {
    const uint32 tiles_per_plane = walk.params.num_kv_tiles * walk.params.num_splits;
    PlaneTile at = find_plane_tile(walk.params, tiles_per_plane);
    at.tile = tiles_per_plane - 1 - at.tile;
    walk.locate(at);
    const int key = walk.kv_tile * kConfig.block_kv;
    const int end_key = end_of(key, kConfig.block_kv, walk.block.seqlen_kv);
    walk.for_each_skipped([&](int head, int tile) {
      const int query = tile * kConfig.block_q;
      bias_grad.clear(walk.block.batch, head, query,
                      end_of(query, kConfig.block_q, walk.block.seqlen_q), key, end_key);
    });
  }

 private:
  ATTNJIT_DEVICE static int end_of(int first, int size, int end) {
    return first + size < end ? first + size : end;
  }
};

}  // namespace attnjit::kernel
