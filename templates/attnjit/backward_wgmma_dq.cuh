#pragma once
#include "attnjit/backward_wgmma_shared.cuh"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/bulk_copy.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/ptx/wgmma.cuh"
#include "attnjit/tile/fragments.cuh"

namespace attnjit::kernel {

// The warpgroup of the Hopper backward that computes dq: of each tile of dS the part dS K that the
// block's keys have in it, 64 queries by 64 columns at a time, which the copy engine adds to the
// sums in global memory.
//
// A warp has 16 of the queries. Its part, eight fragments, lies in the sums one after another as it
// does in shared memory, where the warp has a place of its own for each part of a tile.
template <BackwardWgmmaConfig kConfig>
struct BackwardDqSums {
  using Shared = BackwardShared<kConfig>;
  static constexpr int kFragmentBytes = 128 * 4;
  static constexpr int kPartBytes = 8 * kFragmentBytes;
  static constexpr int kSlabs = kConfig.padded_head_dim() / 64;
  static constexpr int kParts = kConfig.block_q / 64 * kSlabs;   // of a tile
  static constexpr int kGroups = ceil_div(kConfig.head_dim, 8);  // of the columns

  const BackwardParams& params;
  const int batch;
  Shared shared;
  const int warp = ptx::warp_index() & 3;
  const int lane = ptx::lane_index();
  const uint64 ds_descriptor, k_descriptor;

  ATTNJIT_DEVICE BackwardDqSums(const BackwardParams& p, int batch_element)
      : params(p),
        batch(batch_element),
        ds_descriptor(ptx::matrix_descriptor(shared.ds(0), 16, 1024)),
        k_descriptor(ptx::matrix_descriptor(shared.k(), kConfig.block_kv * 128, 1024)) {}

  ATTNJIT_DEVICE void run() {
    ptx::barrier_wait(shared.keys_full(), 0);
    BackwardJob job = Shared::take(shared.job(0));
    for (typename Shared::SlotTurn turn = {}; job.exists(); turn.advance()) {
      const uint32 slot = turn.slot();
      ptx::named_barrier_sync(Shared::ds_full(slot), Shared::kDsThreads);
      const BackwardJob next = Shared::take(shared.job(turn.turn + 1));
      add(job, slot);
      job = next;
    }
    ptx::tensor_store_wait_read();  // shared memory goes with the thread block
  }

 private:
  ATTNJIT_DEVICE void add(const BackwardJob& job, uint32 slot) {
    const int64 plane = static_cast<int64>(batch) * params.num_heads_q + job.head;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int half = part / kSlabs, slab = part % kSlabs;
      Fragments<1, 8> dq;
      multiply(dq, slot, half, slab);
      if (part == kParts - 1) ptx::barrier_arrive_if(lane == 0, shared.ds_empty(slot));
      const uint32 place = shared.dq() + (part * 4 + warp) * kPartBytes;
      ptx::tensor_store_wait_read<kParts - 1>();
      ptx::warp_sync();  // the place has been read
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        ptx::store_shared_16(place + n * kFragmentBytes + 4 * ptx::fragment_slot(lane, 0),
                             {ptx::as_bits(dq[0][n][0]), ptx::as_bits(dq[0][n][1]),
                              ptx::as_bits(dq[0][n][2]), ptx::as_bits(dq[0][n][3])});
      }
      ptx::fence_async_proxy();
      ptx::warp_sync();  // the part is complete
      const int row = job.tile * kConfig.block_q + 64 * half + 16 * warp;
      constexpr int kFloats = 128 * kGroups;  // of 16 rows
      float* const sum =
          params.dq_sum + (plane * params.padded_rows + row) * (kFloats / 16) + slab * 8 * 128;
      const int groups = kGroups - 8 * slab < 8 ? kGroups - 8 * slab : 8;
      ptx::bulk_add_if(lane == 0, sum, place, groups * kFragmentBytes);
      ptx::tensor_store_commit();
    }
  }

  // dq = dS K for 64 queries and the 64 columns of a slab.
  ATTNJIT_DEVICE void multiply(Fragments<1, 8>& dq, uint32 slot, int half, int slab) const {
    hold(dq);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kConfig.block_kv / 16; ++i) {
      const int ds = slot * kConfig.ds_bytes() + (i / 4) * kConfig.block_q * 128 + half * 64 * 128 +
                     i % 4 * 32;
      const int k = slab * kConfig.block_kv * 128 + i * 16 * 128;
      ptx::multiply_async<kConfig.dtype, ptx::Major::kColumns>(dq[0], ds_descriptor + ds / 16,
                                                               k_descriptor + k / 16, i != 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    hold(dq);
  }
  ATTNJIT_DEVICE static void hold(Fragments<1, 8>& dq) {
    dq.for_each([](float& x, int, int, int) { ptx::hold(x); });
  }
};

}  // namespace attnjit::kernel
