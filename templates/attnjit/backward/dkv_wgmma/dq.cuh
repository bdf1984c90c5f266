#pragma once
#include "attnjit/backward/dkv_wgmma/plane_dq.cuh"
#include "attnjit/backward/dkv_wgmma/zeros_ahead.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/tile/slab_products.cuh"

namespace attnjit::kernel {

// The number of bulk groups that store a tile of dS and its share of dq.
template <DkvWgmmaConfig kConfig, class BiasGrad>
ATTNJIT_CONSTEXPR int groups_per_tile() {
  const int subtiles = kConfig.block_q / 64 * (kConfig.padded_head_dim() / 64);
  const int ds_subtiles = kConfig.block_q / 64 * (kConfig.block_kv / 64);
  return subtiles + (BiasGrad::kAdds ? ds_subtiles : BiasGrad::kStores ? 1 : 0);
}

// The warpgroup of the Hopper backward that computes dq: dS K of each tile of dS, 64 queries by 64
// columns at a time (backward/dkv_wgmma/dq_subtiles.cuh), which the copy engine adds to the sums in
// global memory. With an order (backward/dkv_wgmma/dq_semaphore.cuh) the first keys store their
// subtiles, so that the sums need no zeros. Thread blocks that own a kv head write dq itself
// (backward/dkv_wgmma/plane_dq.cuh).
//
// dS is written too where dbias has a row for each query: as it is, or widened and added up like
// dq.
template <DkvWgmmaConfig kConfig, class Features, class BiasGrad>
struct BackwardDqSums : BackwardPlaneDq<kConfig, Features, groups_per_tile<kConfig, BiasGrad>()> {
  using Base = BackwardPlaneDq<kConfig, Features, groups_per_tile<kConfig, BiasGrad>()>;
  using Base::kFragmentBytes, Base::kSubtileBytes, Base::kSubtiles, Base::kSlabs;
  using Base::lane, Base::params, Base::shared, Base::walk, Base::warp;
  using typename Base::Subtile, typename Base::Shared, typename Base::Share;

  using DsTile = typename Shared::DsTile;
  using KTile = typename Shared::KTile;

  const BiasGrad bias_grad;
  const KMajor<DsTile> ds;
  const MnMajor<KTile> k;
  uint32 k_buffer = 0;  // the work tile's
  static constexpr int kParts = kConfig.key_parts;
  // One more than the slot of the previous tile, if its sums are not complete yet and other thread
  // blocks wait for them.
  uint32 incomplete = 0;

  ATTNJIT_DEVICE BackwardDqSums(const DkvWgmmaParams& p, const Features& f, const BiasGrad& g)
      : Base(p, f),
        bias_grad(g),
        ds(DsTile::k_major(shared.ds(0))),
        k(KTile::mn_major(shared.k(0))) {}

  ATTNJIT_DEVICE void run() {
    typename Shared::SlotState state = {};
    for (uint32 number = 0;; ++number) {
      const KeyWorkTile work = shared.next_work(number);
      if (!work.exists()) break;
      walk.locate(work.at);
      k_buffer = number % kConfig.k_buffers();
      if constexpr (zeroes_ahead<kConfig, Features>()) {
        BackwardZerosAhead<kConfig>(params).await(work.at);
      }
      ptx::barrier_wait(shared.k_full(number), Shared::phase(number));
      BackwardJob job = work.first;
      for (; job.exists(); state.advance()) {
        const uint32 slot = state.slot();
        Share share = {};
        if constexpr (kConfig.owns_kv_head) share = this->begin_tile(job, state.index);
        await_ds(job, slot);
        const BackwardJob next = Shared::take(shared.job(state.index + 1));
        add(job, state, share);
        job = next;
      }
      shared.leave_work(number);
      if (!kConfig.loops_over_work()) break;
    }
    complete<0>();
    ptx::tensor_store_wait_read();  // stores still read shared memory, which ends with the thread
                                    // block
  }

 private:
  ATTNJIT_DEVICE void add(const BackwardJob& job, const typename Shared::SlotState& state,
                          const Share& share) {
    const uint32 slot = state.slot();
    const bool stores = kConfig.orders_dq() ? walk.order_of(job.tile) == 0 : share.first;
    if constexpr (BiasGrad::kStores) store_scores(job, slot);
#pragma unroll
    for (int subtile = 0; subtile < kSubtiles; ++subtile) {
      const int half = subtile / kSlabs, slab = subtile % kSlabs;
      Subtile dq;
      if constexpr (kConfig.owns_kv_head) this->begin_subtile(dq, subtile, share);
      if constexpr (kParts > 1) {
        multiply_parts(dq, job.parts, half, slab);
        if (subtile == kSubtiles - 1) release_parts(job.parts);
      } else {
        multiply<0, kConfig.block_kv>(dq, slot, half, slab, kConfig.owns_kv_head);
        if (subtile == kSubtiles - 1 && !BiasGrad::kAdds) release(slot);
      }
      if (kConfig.owns_kv_head && share.last) {
        this->write(job, subtile, dq);
        continue;
      }
      if (!this->has_sums(job, subtile)) continue;
      const uint32 buffer = this->acquire_buffer();
      this->put(buffer, dq);
      if (kConfig.orders_dq() && subtile == 0) {
        complete<BiasGrad::kStores ? 1 : 0>();
        ptx::barrier_wait(shared.dq_acquired(slot), state.full());
        ptx::fence_async_proxy_global();
      }
      this->add_to(this->sums_of(job, subtile), buffer, Base::groups_of(subtile) * kFragmentBytes,
                   stores);
    }
    if (kConfig.orders_dq()) {
      incomplete = slot + 1;
      // No thread block waits for an addition after that of the first keys.
      if (kConfig.dq_order == DqOrder::kFirstStores && !stores) tell_complete();
    }
    if constexpr (BiasGrad::kAdds) {
      add_scores(job, slot);
      release(slot);
    }
  }

  // Waits for a job's tile of dS, or those of the parts that have one, in the only slot of each.
  ATTNJIT_DEVICE void await_ds(const BackwardJob& job, uint32 slot) const {
    if constexpr (kParts > 1) {
      static_assert(Shared::kSlots == 1);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (!job.parts.keeps(part)) continue;
        ptx::named_barrier_sync(Shared::ds_full(0, part), Shared::kDsThreads);
      }
    } else {
      ptx::named_barrier_sync(Shared::ds_full(slot), Shared::kDsThreads);
    }
  }
  // Waits until the sums of the previous tile are complete, with kPending groups of the current
  // tile still under way, and signals it. They were completed while dS of the current tile was
  // computed.
  template <int kPending>
  ATTNJIT_DEVICE void complete() {
    if (incomplete == 0) return;
    ptx::tensor_store_wait<kPending>();
    tell_complete();
  }
  ATTNJIT_DEVICE void tell_complete() {
    ptx::barrier_arrive_if(lane == 0, shared.dq_complete(incomplete - 1));
    incomplete = 0;
  }

  // Releases a tile of dS: the warp's lanes have read it. A store of the tile is the group before
  // those of dq, one of which is still to come.
  ATTNJIT_DEVICE void release(uint32 slot) const {
    if constexpr (BiasGrad::kStores) ptx::tensor_store_wait_read<kSubtiles - 1>();
    ptx::barrier_arrive_if(lane == 0, shared.ds_empty(slot));
  }

  // The same of the parts that have one.
  ATTNJIT_DEVICE void release_parts(const KeyParts& parts) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      ptx::barrier_arrive_if(lane == 0 && parts.keeps(part), shared.ds_empty(0, part));
    }
  }

  // Adds dS to the sums of dbias, 16 queries by 64 keys of a warp at a time.
  ATTNJIT_DEVICE void add_scores(const BackwardJob& job, uint32 slot) {
    // Eight lanes have two rows, which lie in different banks both as 16 bits and as 32.
    const int row = lane >> 3 ^ (lane >> 2 & 1) * 5;
#pragma unroll
    for (int half = 0; half < kConfig.block_q / 64; ++half) {
      const int query = 64 * half + 16 * warp;
#pragma unroll
      for (int slab = 0; slab < kConfig.block_kv / 64; ++slab) {
        const uint32 lines =
            shared.ds(slot) + DsTile::rows_on(slab * DsTile::kHeight + query + row);
        const uint32 buffer = this->acquire_buffer();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int span = i / 2, h = i % 2;  // of 32 keys, of 8 rows
          const int chunk = 4 * span + (lane & 3);
          const ptx::Vector16 keys =
              ptx::load_shared_16(lines + DsTile::rows_on(8 * h) + ((chunk ^ row) << 4));
          const uint32 target = buffer + 4 * (512 * span + 256 * h + 16 * row + 4 * (lane & 3));
          ptx::store_shared_16(target, widen(keys.word[0], keys.word[1]));
          ptx::store_shared_16(target + 4 * 128, widen(keys.word[2], keys.word[3]));
        }
        this->add_to(
            bias_grad.sums_of(walk.block.batch, job.head, job.tile * kConfig.block_q + query,
                              walk.kv_tile * kConfig.block_kv + 64 * slab),
            buffer, kSubtileBytes);
      }
    }
  }
  ATTNJIT_DEVICE static ptx::Vector16 widen(uint32 low, uint32 high) {
    const auto bits = [](uint32 pair, int i) {
      return ptx::as_bits(ptx::widen<kConfig.dtype>(static_cast<uint16>(pair >> (16 * i))));
    };
    return {{bits(low, 0), bits(low, 1), bits(high, 0), bits(high, 1)}};
  }
  // Starts to write the tile of dS to dbias, a slab of 64 keys by each of the first warps.
  ATTNJIT_DEVICE void store_scores(const BackwardJob& job, uint32 slot) const {
    ptx::tensor_store_if(lane == 0 && warp < kConfig.block_kv / 64, params.dbias,
                         shared.ds(slot) + warp * DsTile::kSlabBytes,
                         walk.kv_tile * kConfig.block_kv + 64 * warp, job.tile * kConfig.block_q,
                         job.head, walk.block.batch);
    ptx::tensor_store_commit();
    if (lane == 0 && warp == 0) {
      bias_grad.mark(params.base, walk.block.batch, job.head, job.tile, walk.kv_tile);
    }
  }

  // dq = dS K, or dq += dS K where `adds`, for 64 queries, the 64 columns of a slab and kKeys keys
  // from kFirst on. If descriptors of the buffers gain constants for the steps, ptxas 13.0 spills
  // (40 bytes at D128 with ordered dq).
  template <int kFirst, int kKeys>
  ATTNJIT_DEVICE void multiply(Subtile& dq, uint32 slot, int half, int slab, bool adds) const {
    hold(dq);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = kFirst / 16; i < (kFirst + kKeys) / 16; ++i) {
      const int of_ds =
          slot * DsTile::kBytes + DsTile::columns_on(16 * i) + DsTile::rows_on(64 * half);
      const int of_k =
          k_buffer * KTile::kBytes + KTile::columns_on(64 * slab) + KTile::rows_on(16 * i);
      ptx::multiply_async<kConfig.dtype, ptx::Major::kColumns>(
          dq[0], ds.descriptor + of_ds / 16, k.descriptor + of_k / 16, adds || i != kFirst / 16);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    hold(dq);
  }
  // The same of the keys of both parts, or of the one that has a tile of dS.
  ATTNJIT_DEVICE void multiply_parts(Subtile& dq, const KeyParts& parts, int half, int slab) const {
    constexpr int kKeys = kConfig.block_kv / kParts, kLast = kParts - 1;
    const bool first = parts.keeps(0);
    if (first) multiply<0, kKeys>(dq, 0, half, slab, false);
    if (parts.keeps(kLast)) {
      multiply<kLast * kKeys, kKeys>(dq, 0, half, slab, first);
    }
  }
};

}  // namespace attnjit::kernel
