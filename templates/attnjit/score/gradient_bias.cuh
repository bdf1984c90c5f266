#pragma once
#include "attnjit/backward_config.h"
#include "attnjit/ptx/prefetch.cuh"
#include "attnjit/score/bias.cuh"

namespace attnjit::kernel {

// The bias of the backward, read to registers when the config says. Where that is late it is asked
// for a tile ahead, as far as L2.
template <BackwardConfig kConfig, BiasConfig kBias>
struct GradientBias : Bias<kConfig.scores(), kBias> {
  using Base = Bias<kConfig.scores(), kBias>;
  using Base::Base, Base::params, Base::plane, Base::tile_key;

  // Asks for a tile of the head at hand; the first tile of a head is not asked for.
  ATTNJIT_DEVICE void prefetch(const Block& block, int head, int q_tile, int kv_tile) const {
    if constexpr (kConfig.late != 0 && kBias.extent == Extent::kPerPair && kBias.vectorized) {
      if (head != block.head) return;
      constexpr int kLineKeys = 128 / Base::kElementBytes;
      constexpr int kLines = ceil_div(kConfig.block_kv, kLineKeys);  // of a row
      const int thread = ptx::thread_index();
#pragma unroll
      for (int first = 0; first < kConfig.block_q * kLines; first += kConfig.num_threads()) {
        const int line = first + thread;
        const int row = q_tile * kConfig.block_q + line / kLines;
        const int key = kv_tile * kConfig.block_kv + line % kLines * kLineKeys;
        if (line >= kConfig.block_q * kLines || row >= block.seqlen_q || key >= block.seqlen_kv) {
          continue;
        }
        ptx::prefetch_l2(plane + (row * params.query_stride + key) * Base::kElementBytes);
      }
    }
  }
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, TileUse use) {
    if constexpr (kConfig.late != 0) {
      tile_key = first_key;
    } else {
      Base::fetch(block, first_key, use);
    }
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores) {
    if constexpr (kConfig.late != 0 && kBias.vectorized) this->read(block);
    Base::add(block, scores);
  }
};

}  // namespace attnjit::kernel
