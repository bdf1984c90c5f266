#pragma once
#include "attnjit/backward_wgmma_producer.cuh"

namespace attnjit::kernel {

// The warp of the Hopper backward that completes a dbias which is stored tile by tile: it writes
// zeros where the walk passes over a tile of queries.
template <BackwardWgmmaConfig kConfig, class Features, class BiasGrad>
struct BackwardZeros {
  const BackwardWgmmaParams& params;
  BackwardShared<kConfig> shared;
  BackwardWalk<kConfig, Features> walk;
  const BiasGrad bias_grad;

  ATTNJIT_DEVICE BackwardZeros(const BackwardWgmmaParams& p, const Features& f, const BiasGrad& g)
      : params(p), walk(p.base, f), bias_grad(g) {}

  ATTNJIT_DEVICE void run() {
    for (uint32 number = 0; enter_place<kConfig>(shared, walk, number); ++number) {
      const int key = walk.kv_tile * kConfig.block_kv;
      const int end_key = end_of(key, kConfig.block_kv, walk.block.seqlen_kv);
      walk.for_each_skipped([&](int head, int tile) {
        const int query = tile * kConfig.block_q;
        bias_grad.clear(walk.block.batch, head, query,
                        end_of(query, kConfig.block_q, walk.block.seqlen_q), key, end_key);
      });
      if (!kConfig.has_places()) return;
      shared.leave_place(number);
    }
  }

 private:
  ATTNJIT_DEVICE static int end_of(int first, int size, int end) {
    return first + size < end ? first + size : end;
  }
};

}  // namespace attnjit::kernel
