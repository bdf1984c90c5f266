#pragma once
#include "attnjit/backward/dkv_wgmma_d256/producer.cuh"
#include "attnjit/backward/dkv_wgmma_d256/roles.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/score/key_bias_grad.cuh"

// The backward of Hopper (sm_90a) for head_dim above 128, keys at rest: dk and dv with wgmma. dq
// has its own kernel: adding up a share of dq for every 64 keys would cost more than computing the
// scores again.
//
// A thread block keeps 64 keys of one kv head and walks over the queries of all heads that share
// it. Its warps have roles:
//
//   warpgroup 0   warp 0 walks over the tiles of queries and loads K, V, Q and dO; warp 1 sets rows
//                 to zero that must not be read; the others end
//   warpgroup 1   S, P and dv
//   warpgroup 2   dP, dS and dk
//
// Shared memory: see DkvWgmmaD256Config.
namespace attnjit::kernel {

template <DkvWgmmaD256Config kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_dkv_wgmma_d256(const DkvWgmmaParams& params, const BiasGrad& bias_grad,
                                            Features... features) {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in backward/dkv_wgmma_d256/config.h");
  static_assert(!BiasGrad::kStores && !BiasGrad::kAdds, "dS does not lie in shared memory");
  using Set = GradientFeatures<Features...>;
  if (ptx::thread_index() == 0) DkvD256Shared<kConfig>().init_barriers();
  ptx::block_sync();  // barriers are visible to all threads
  const int warpgroup = ptx::warpgroup_index();
  if (warpgroup == 0) {
    ptx::give_registers<kConfig.producer_registers>();
    const int warp = ptx::warp_index();
    if (warp == 0) DkvD256Producer<kConfig, Set>(params, Set(features...)).run();
    if (warp == 1) DkvD256ZeroFill<kConfig, Set>(params, Set(features...)).run();
  } else if (warpgroup == 1) {
    ptx::take_registers<kConfig.product_registers()>();
    DvWarpgroup<kConfig, Set>(params, Set(features...)).run();
  } else {
    ptx::take_registers<kConfig.product_registers()>();
    DkWarpgroup<kConfig, Set, BiasGrad>(params, Set(features...), bias_grad).run();
  }
}

}  // namespace attnjit::kernel
