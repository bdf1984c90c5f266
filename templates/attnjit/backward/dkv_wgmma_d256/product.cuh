#pragma once
#include "attnjit/backward/dkv_wgmma_d256/shared.cuh"
#include "attnjit/backward/key_rows.cuh"
#include "attnjit/backward/key_walk.cuh"
#include "attnjit/ptx/named_barrier.cuh"
#include "attnjit/ptx/opaque.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/tile/slab_products.cuh"
#include "attnjit/tile/team.cuh"

namespace attnjit::kernel {

// A warpgroup of the Hopper backward for head_dim above 128: dv or dk of the block's 64 keys, each
// of which takes 128 registers of a thread. All products have keys in their rows. In a step,
//
//     scores    = resident first^T      S = K Q^T             dP = V dO^T
//     operand   = Derived::compute      P = exp(S - lse)      dS = P (dP - delta)
//     gradients += operand second       dv += P dO            dk += dS Q
//
// where `operand` is an operand as it lies in registers. The last product still runs while the
// first one of the next step is issued. So the tensor cores have work except during compute(), when
// the other warpgroup uses them.
template <DkvWgmmaD256Config kConfig, class Features, Stream kFirst, class Derived,
          ScoreShape kShape = kConfig.scores()>
struct DkvD256Product : KeyTileWalk<BackwardBlock<kShape, Features, WarpTeam>> {
  using Base = KeyTileWalk<BackwardBlock<kShape, Features, WarpTeam>>;
  using Base::block, Base::features, Base::kv_tile, Base::params;
  static constexpr DType kDType = kConfig.dtype;
  static constexpr Stream kSecond =
      kFirst == Stream::kQueries ? Stream::kOutputs : Stream::kQueries;
  static constexpr bool kOfValues = kFirst == Stream::kQueries;  // the gradients are dv
  static constexpr int kGroups = kConfig.block_q / 8;            // of 8 queries
  static constexpr int kColumns = kOfValues ? kConfig.head_dim_v : kConfig.head_dim;
  using Shared = DkvD256Shared<kConfig>;
  using ResidentTile = TypeIf<kOfValues, typename Shared::KTile, typename Shared::VTile>;
  using FirstTile = TypeIf<kOfValues, typename Shared::QTile, typename Shared::DoutTile>;
  using SecondTile = TypeIf<kOfValues, typename Shared::DoutTile, typename Shared::QTile>;
  using Scores = Fragments<1, kGroups>;
  using Operand = uint32[kGroups][2];  // scores, rounded, as the operand of a product
  using Gradients = Fragments<1, round_up(kColumns, 32) / 8>;

  Shared shared;
  const int warp_row = 16 * (ptx::warp_index() & 3);  // of the warp's 16 keys in the tile
  const int lane = ptx::lane_index();
  const KMajor<FirstTile> first;
  const MnMajor<SecondTile> second;
  typename Shared::StageState state = {};
  Scores scores;  // always the same registers: others would have to be written during products
  Operand operand;
  Gradients gradients;

  ATTNJIT_DEVICE DkvD256Product(const DkvWgmmaParams& p, const Features& f)
      : Base(p.base, f),
        first(FirstTile::k_major(shared.tile(kFirst, 0))),
        second(SecondTile::mn_major(shared.tile(kSecond, 0))) {}

  ATTNJIT_DEVICE void run() {
    this->locate();
    if (!this->has_keys()) return;
    block.thread_key += warp_row;
    scores = 0.0f;
    gradients = 0.0f;
    ptx::barrier_wait(shared.keys_full(), 0);
    BackwardJob job = Shared::take(shared.job(0));
    if (job.exists()) {
      begin(job);
      // The very first product is waited for: ptxas would otherwise copy sums that still change.
      ptx::wgmma_wait<0>();
      hold(scores);
      while (true) {
        finish_scores();
        const BackwardJob next = Shared::take(shared.job(state.index + 1));
        end(job);
        if (!next.exists()) break;
        job = next;
        begin(job);
      }
      ptx::wgmma_wait<0>();
      hold(gradients, operand);
    }
    write();
  }

 private:
  ATTNJIT_DEVICE Derived& derived() { return static_cast<Derived&>(*this); }

  // scores = resident tile^T. The descriptor of K or V is computed from a value that the compiler
  // does not know: it would otherwise keep those of all columns through the loop.
  ATTNJIT_DEVICE void multiply_resident(const KMajor<FirstTile>& tile) {
    const uint32 resident = ptx::opaque(kOfValues ? shared.k() : shared.v());
    mma_abt<kDType>(scores, ResidentTile::k_major(resident), tile);
  }
  // Issues the first product of a job.
  ATTNJIT_DEVICE void begin(const BackwardJob& job) {
    const uint32 stage = state.slot();
    ptx::barrier_wait(shared.full(kFirst, stage), state.full());
    derived().begin(job, stage);
    hold(scores);
    ptx::wgmma_fence();
    multiply_resident(first.of_buffer(stage));
    ptx::wgmma_commit();
  }
  // Waits for the last product of the previous job, and then for the first one of this job.
  ATTNJIT_DEVICE void finish_scores() {
    const uint32 before = (state.index - 1) % Shared::kStages;
    ptx::wgmma_wait<1>();
    hold(gradients, operand);
    ptx::barrier_arrive_if(lane == 0 && state.index != 0, shared.empty(kSecond, before));
    ptx::wgmma_wait<0>();
    hold(scores);
  }
  // Issues the last product of a job.
  ATTNJIT_DEVICE void end(const BackwardJob& job) {
    const uint32 stage = state.slot();
    derived().compute(job, stage);
    ptx::warp_sync();  // all lanes have read what came with the tile
    ptx::barrier_arrive_if(lane == 0, shared.empty(kFirst, stage));
    ptx::barrier_wait(shared.full(kSecond, stage), state.full());
    hold(gradients, operand);
    ptx::wgmma_fence();
    mma_ab<kDType>(gradients, operand, second.of_buffer(stage));
    ptx::wgmma_commit();
    state.advance();
  }

  ATTNJIT_DEVICE void write() const {
    const int key = kv_tile * kConfig.block_kv + warp_row;
    if (params.num_splits > 1) {
      add_key_rows<kColumns>(*this, key, gradients, kOfValues ? params.dv_sum : params.dk_sum);
    } else if constexpr (kOfValues) {
      write_key_rows<kDType, kColumns>(*this, key, gradients, 1.0f / kConfig.probability_scale(),
                                       params.dv, params.dv_strides);
    } else {
      write_key_rows<kDType, kColumns>(*this, key, gradients, params.scale, params.dk,
                                       params.dk_strides);
    }
  }
};

}  // namespace attnjit::kernel
