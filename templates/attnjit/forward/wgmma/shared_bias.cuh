#pragma once
#include "attnjit/forward/wgmma/shared_bias_consumer.cuh"
#include "attnjit/forward/wgmma/shared_bias_stages.cuh"
#include "attnjit/ptx/elect.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/score/register_bias.cuh"
#include "attnjit/tile/strided_keys.cuh"
#include "attnjit/tile/team.cuh"
#include "attnjit/tile/unread_keys.cuh"

// The forward of Hopper (sm_90a) with a bias over queries and keys that batch elements share, as
// triangle attention has one: out = softmax(scale q k^T + bias) v, planes of up to 384 keys. Shapes
// and strides are those of forward/wgmma/kernel.cuh.
//
// A thread block has a strip of 64 rows and all keys, and walks over the batch elements that share
// its plane of the bias:
//
//                 keys: a third for each consumer
//               +-------------+-------------+-------------+
//     64 rows   | warpgroup 1 | warpgroup 2 | warpgroup 3 |
//               +-------------+-------------+-------------+
//
// A consumer keeps its part of the bias in registers and has the scores of its keys at once:
//
//     S = Q K^T    P = 2^(S + bias - reference)    part = P [V | 1]
//
// It leaves its part in the place of the K and V that it has used. After the next element two of
// the consumers, in turns, merge the parts of all three and write them: one the upper and one the
// lower eight rows of each 16. So no consumer waits for another, and while one multiplies another
// exponentiates.
//
// Warpgroup 0: warp 0 loads, kStages elements ahead; warp 1 + c finds the keys of consumer c that
// are dropped, and zero-fills their rows of V.
namespace attnjit::kernel {

// The warp that loads.
template <ForwardSharedBiasConfig kConfig>
ATTNJIT_DEVICE void load_strips(const ForwardSharedBiasParams& params) {
  using Stages = SharedBiasStages<kConfig>;
  constexpr int kSlab = kConfig.kSlabColumns, kBytes = kConfig.kConsumers * kConfig.k_bytes();
  const ForwardWgmmaParams& p = params.base;
  typename Stages::State state;
  for (StripWalk walk(params); walk.exists(); walk.advance(), state.advance()) {
    const uint32 slot = state.slot();
    ptx::barrier_wait(Stages::empty(slot), state.empty());
    ptx::fence_async_proxy();  // the copy engine overwrites parts of the output
    if (!ptx::elect_lane()) continue;
    const RowWorkTile work = walk.work();
    const auto load = [&](const TensorMap& map, const TensorMap& tail, uint32 tile, int consumer,
                          uint32 full) {
      load_strided_keys<kSlab, kConfig.share(), false, kSlab>(
          tile, map, tail, full, KeySource<>{consumer * kConfig.share(), work.head, {work.batch}},
          p.base.seqlen_kv);
    };
    const uint32 full = Stages::qk_full(slot), landed = Stages::v_landed(slot);
    ptx::barrier_arrive_expecting(full, kConfig.kQBytes + kBytes);
    ptx::tensor_load(Stages::q(slot), p.q, full, 0, work.q_tile * kConfig.block_q, work.head,
                     work.batch);
    for (int c = 0; c < kConfig.kConsumers; ++c) load(p.k, p.k_tail, Stages::k(slot, c), c, full);
    ptx::barrier_arrive_expecting(landed, kBytes);
    for (int c = 0; c < kConfig.kConsumers; ++c) load(p.v, p.v_tail, Stages::v(slot, c), c, landed);
  }
}

// A warp that finds the keys of a consumer which are dropped. Keys past the tensor are among them;
// their rows of V are zeros already.
template <ForwardSharedBiasConfig kConfig, class Features>
ATTNJIT_DEVICE void drop_keys(const ForwardSharedBiasParams& params, Features features,
                              int consumer) {
  using Stages = SharedBiasStages<kConfig>;
  constexpr bool kZeroFills = Features::kNarrows || Features::kPicksKeys;
  const int first_key = consumer * kConfig.share();
  typename Stages::State state;
  for (StripWalk walk(params); walk.exists(); walk.advance(), state.advance()) {
    const uint32 slot = state.slot();
    const Block block = locate_rows<kConfig.block_q, 1>(params.base.base, features, walk.work());
    features.begin(block);
    KeyRange keys = {0, block.kv_len};
    features.narrow(WarpTeam(), block, keys);
    const UnreadKeys<kConfig.share(), kConfig.share()> unread([&](int of_tile) {
      const int key = first_key + of_tile;
      return key < keys.begin || key >= keys.end || !features.reads_key(key);
    });
    ptx::barrier_wait(Stages::empty(slot), state.empty());
    if (ptx::lane_index() == 0) {
      ptx::Vector16 kept = {};
#pragma unroll
      for (int i = 0; i < kConfig.share() / 32; ++i) kept.word[i] = ~unread.rows[i];
      ptx::store_shared_16(Stages::kept(slot, consumer), kept);
      ptx::barrier_arrive(Stages::qk_full(slot));
    }
    ptx::barrier_wait(Stages::v_landed(slot), state.full());
    if constexpr (kZeroFills) {
      unread.template zero_fill<typename Stages::VTile>(Stages::v(slot, consumer));
      ptx::fence_async_proxy();
      ptx::warp_sync();  // all rows are zero
    }
    ptx::barrier_arrive_if(ptx::lane_index() == 0, Stages::v_full(slot));
  }
}

template <ForwardSharedBiasConfig kConfig, class... Features>
ATTNJIT_DEVICE void forward_shared_bias(const ForwardSharedBiasParams& params,
                                        Features... features) {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in forward/wgmma/shared_bias_config.h");
  using Plain = FeatureSet<Features...>;
  using Set = FeatureSet<RegisterBiasOrPlain<Features>...>;
  using Stages = SharedBiasStages<kConfig>;
  const int thread = ptx::thread_index();
  if (thread == 0) Stages::init_barriers();
  Stages::fill_ones(thread);
  // Waits for the kernel that converts the mask to bits.
  if constexpr (Plain::kAwaits) ptx::wait_for_previous_kernel();
  ptx::block_sync();  // barriers and ones are visible to all threads
  const int warpgroup = ptx::warpgroup_index();
  if (warpgroup == 0) {
    ptx::give_registers<kConfig.kProducerRegisters>();
    const int warp = ptx::warp_index();
    if (warp == 0) {
      load_strips<kConfig>(params);
    } else {
      drop_keys<kConfig>(params, Plain(features...), warp - 1);
    }
  } else {
    ptx::take_registers<kConfig.kConsumerRegisters>();
    SharedBiasConsumer<kConfig, Set>(params, Set(RegisterBiasOrPlain<Features>(features)...),
                                     warpgroup - 1)
        .run();
  }
}

}  // namespace attnjit::kernel
