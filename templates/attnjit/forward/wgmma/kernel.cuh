#pragma once
#include "attnjit/forward/wgmma/consumer.cuh"
#include "attnjit/forward/wgmma/plan.cuh"
#include "attnjit/forward/wgmma/producer.cuh"
#include "attnjit/ptx/sync.cuh"

// The forward of Hopper (sm_90a): out = softmax(scale q k^T + features) v with wgmma, which
// multiplies out of shared memory, and with the copy engine (TMA), which fills it.
//
//   q   [batch, Hq,  Lq, D ]      out [batch, Hq, Lq, Dv]
//   k   [batch, Hkv, Lk, D ]      lse [batch, Hq, Lq]
//   v   [batch, Hkv, Lk, Dv]
//
// A thread block stays on its SM and takes one block of block_q rows after another. Its warps have
// roles:
//
//   warpgroup 0      warp 0 walks over the tiles and loads Q, K and V; warp 1 zero-fills keys;
//                    warp 2 plans, with plans_work; the others end
//   warpgroups 1 ..  64 rows each: multiply, exponentiate, write (forward/wgmma/consumer.cuh)
//
// Two teams share nothing but the thread block: each has a walking warp, a planning one, a
// warpgroup that multiplies, and half of the memory. One multiplies while the other exponentiates.
//
// Shared memory: [ Q, then O: 1 to 3 buffers, or a ring of subtiles of Q | K: num_stages tiles |
// V: num_stages tiles | ones | barriers, jobs, planned work tiles | maxima of rows, where they are
// kept ].
namespace attnjit::kernel {

template <ForwardWgmmaConfig kConfig, class... Features>
ATTNJIT_DEVICE void forward_wgmma(const ForwardWgmmaParams& params, Features... features) {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward/wgmma/config.h");
  using Set = FeatureSet<Features...>;
  constexpr bool kZeroFills = Set::kNarrows || Set::kPicksKeys;
  static_assert(kConfig.teams == 1 || !kZeroFills, "no warps of two teams zero-fill keys");
  const ForwardShared<kConfig> shared;
  const int thread = ptx::thread_index();
  if constexpr (kConfig.teams == 1) {
    if (thread == 0) shared.init_barriers(kZeroFills ? 2 : 1);
    if (thread < 128) shared.fill_ones(thread);
  } else {
    if (thread == 0 || thread == 32) shared.init_barriers(1);
    if (thread >= 128) shared.fill_ones(thread % 128);
  }
  // Waits for the kernel that converts the mask to bits. With packed sequences the previous kernel
  // lists the blocks of rows, and only the warps that read the list wait for it.
  if constexpr (Set::kAwaits && !Set::kPacksSequences) ptx::wait_for_previous_kernel();
  ptx::block_sync();  // barriers and ones are visible to all threads
  const int warpgroup = ptx::warpgroup_index();
  if (warpgroup == 0) {
    ptx::give_registers<kConfig.producer_registers>();
    const int warp = kConfig.teams == 1 ? ptx::warp_index() : ptx::warp_index() / 2 * 2;
    if (warp == 0) ForwardProducer<kConfig, Set>(params, Set(features...)).run();
    if (warp == 1 && kZeroFills) zero_fill_keys<kConfig>(params, Set(features...));
    if constexpr (kConfig.plans_work) {
      if (warp == 2 && ptx::lane_index() == 0) plan_rows<kConfig>(params, Set(features...), shared);
    }
  } else {
    ptx::take_registers<kConfig.consumer_registers()>();
    ForwardConsumer<kConfig, Set>(params, Set(features...), kConfig.teams == 1 ? warpgroup - 1 : 0)
        .run();
  }
}

}  // namespace attnjit::kernel
