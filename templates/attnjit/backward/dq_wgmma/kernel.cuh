#pragma once
#include "attnjit/backward/dq_wgmma/consumer.cuh"
#include "attnjit/backward/dq_wgmma/producer.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/score/gradient_feature.cuh"

// The Hopper kernel of dq alone (sm_90a), queries at rest, with wgmma and the copy engine. No sum
// is shared by thread blocks, so its results are the same bits every time.
//
// A thread block keeps 128 queries of one head and walks over the keys. Its warps have roles:
//
//   warpgroup 0      warp 0 walks over the tiles of keys and loads Q, dO, K and V; warp 1 sets rows
//                    to zero that must not be read; the others end
//   warpgroups 1, 2  64 queries each (backward/dq_wgmma/consumer.cuh)
//
// Shared memory: see DqWgmmaConfig.
namespace attnjit::kernel {

template <DqWgmmaConfig kConfig, class... Features>
ATTNJIT_DEVICE void backward_dq_wgmma(const DqWgmmaParams& params, Features... features) {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in backward/dq_wgmma/config.h");
  using Set = GradientFeatures<Features...>;
  if (ptx::thread_index() == 0) DqWgmmaShared<kConfig>().init_barriers();
  ptx::block_sync();  // barriers are visible to all threads
  const int warpgroup = ptx::warpgroup_index();
  if (warpgroup == 0) {
    ptx::give_registers<kConfig.producer_registers>();
    const int warp = ptx::warp_index();
    if (warp == 0) DqWgmmaProducer<kConfig, Set>(params, Set(features...)).run();
    if (warp == 1) DqWgmmaZeroFill<kConfig, Set>(params, Set(features...)).run();
  } else {
    ptx::take_registers<kConfig.product_registers()>();
    DqWgmmaConsumer<kConfig, Set>(params, Set(features...), warpgroup - 1).run();
  }
}

}  // namespace attnjit::kernel
