#pragma once
#include "attnjit/backward/dkv_wgmma/dbias_zeros.cuh"
#include "attnjit/backward/dkv_wgmma/dq.cuh"
#include "attnjit/backward/dkv_wgmma/dq_semaphore.cuh"
#include "attnjit/backward/dkv_wgmma/keys.cuh"
#include "attnjit/backward/dkv_wgmma/producer.cuh"
#include "attnjit/backward/dkv_wgmma/zeros_ahead.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/score/key_bias_grad.cuh"

// The backward of Hopper (sm_90a), keys at rest: dk and dv, and the contribution of a tile of keys
// to dq, with wgmma, which multiplies out of shared memory, and the copy engine (TMA), which fills
// it.
//
// A thread block keeps block_kv keys of one kv head and walks over the queries of all heads that
// share it. Its warps have roles:
//
//   warpgroup 0        warp 0 finds the work tiles, walks over the queries and loads Q and dO;
//                      warp 1 sets rows to zero that must not be read; warp 2 orders the sums of dq
//                      (backward/dkv_wgmma/dq_semaphore.cuh) or sets its sums to zero
//                      (backward/dkv_wgmma/zeros_ahead.cuh), and dbias where it has no tile
//                      (backward/dkv_wgmma/dbias_zeros.cuh); warp 3 loads K and V
//   warpgroups 1, 2    64 keys each: scores, dk, dv (backward/dkv_wgmma/keys.cuh)
//   warpgroup 3        dq (backward/dkv_wgmma/dq.cuh)
//
// Shared memory: see DkvWgmmaConfig.
namespace attnjit::kernel {

template <DkvWgmmaConfig kConfig, class BiasGrad, class... Features>
ATTNJIT_DEVICE void backward_dkv_wgmma(const DkvWgmmaParams& params, const BiasGrad& bias_grad,
                                       Features... features) {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in backward/dkv_wgmma/config.h");
  using Set = GradientFeatures<Features...>;
  if (ptx::thread_index() == 0) {
    BackwardShared<kConfig>().init_barriers(kConfig.orders_dq() || zeroes_ahead<kConfig, Set>());
  }
  ptx::let_next_kernel_begin();
  ptx::wait_for_previous_kernel();
  ptx::block_sync();  // barriers are visible to all threads
  const int warpgroup = ptx::warpgroup_index();
  if (warpgroup == 0) {
    ptx::give_registers<kConfig.producer_registers>();
    const int warp = ptx::warp_index();
    if (warp == 0) BackwardProducer<kConfig, Set>(params, Set(features...)).run();
    if (warp == 1) DkvWgmmaZeroFill<kConfig, Set>(params, Set(features...)).run();
    if (warp == 3) BackwardKeyProducer<kConfig, Set>(params, Set(features...)).run();
    if (warp == 2) {
      if constexpr (zeroes_ahead<kConfig, Set>()) BackwardZerosAhead<kConfig>(params).run();
      if constexpr (BiasGrad::kClears) {
        BackwardZeros<kConfig, Set, BiasGrad>(params, Set(features...), bias_grad).run();
      }
      if constexpr (kConfig.orders_dq()) DqSemaphore<kConfig, Set>(params, Set(features...)).run();
    }
  } else if (warpgroup == 3) {
    ptx::give_registers<kConfig.dq_registers>();
    BackwardDqSums<kConfig, Set, BiasGrad>(params, Set(features...), bias_grad).run();
  } else {
    ptx::take_registers<kConfig.key_registers()>();
    BackwardKeys<kConfig, Set, BiasGrad>(params, Set(features...), bias_grad, warpgroup - 1).run();
  }
}

}  // namespace attnjit::kernel
