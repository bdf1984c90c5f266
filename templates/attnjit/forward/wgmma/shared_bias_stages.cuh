#pragma once
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/wgmma/shared_bias_config.h"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/pipeline_state.cuh"
#include "attnjit/tile/slab_tile.cuh"

// The order of work of the Hopper forward with a shared bias, and its shared memory.
namespace attnjit::kernel {

// The (batch element, head) pairs and strips of a thread block: a contiguous part of
// ForwardSharedBiasParams' order.
struct StripWalk {
  const ForwardSharedBiasParams& params;
  uint32 left;  // pairs to come, the current one included
  int head, group, strip, sharer;
  int batch, of_run;  // the element, and its place among its neighbours that share a plane
  bool turns = true;  // to another strip or plane of the bias

  ATTNJIT_DEVICE explicit StripWalk(const ForwardSharedBiasParams& p) : params(p) {
    const uint64 strips = p.base.base.num_q_tiles, sharers = p.order.sharers;
    const uint64 pairs = static_cast<uint64>(p.base.base.num_planes) * strips;
    const uint64 block = ptx::block_index(), blocks = p.num_blocks;
    const uint64 begin = pairs / blocks * block + pairs % blocks * block / blocks;
    const uint64 end = pairs / blocks * (block + 1) + pairs % blocks * (block + 1) / blocks;
    left = static_cast<uint32>(end - begin);
    const uint64 run = begin / sharers, plane = run / strips;
    sharer = static_cast<int>(begin - run * sharers);
    strip = static_cast<int>(run - plane * strips);
    head = static_cast<int>(plane / groups());
    group = static_cast<int>(plane % groups());
    find_element();
  }
  // Groups of batch elements that share a plane.
  ATTNJIT_DEVICE uint32 groups() const {
    return static_cast<uint32>(params.order.batch / params.order.sharers);
  }
  ATTNJIT_DEVICE bool exists() const { return left != 0; }
  ATTNJIT_DEVICE RowWorkTile work() const { return {batch, head, strip, 0}; }
  ATTNJIT_DEVICE void advance() {
    --left;
    turns = ++sharer == params.order.sharers;
    if (turns) {
      sharer = 0;
      next_strip();
      find_element();
    } else {
      ++batch;
      if (++of_run == params.order.run) {
        of_run = 0;
        batch += static_cast<int>(params.order.cycle.planes - 1) * params.order.run;
      }
    }
  }

 private:
  ATTNJIT_DEVICE void next_strip() {
    if (++strip < params.base.base.num_q_tiles) return;
    strip = 0;
    if (++group < static_cast<int>(groups())) return;
    group = 0;
    ++head;
  }
  ATTNJIT_DEVICE void find_element() {
    batch = params.order.batch_element(group * params.order.sharers + sharer);
    of_run = sharer % params.order.run;
  }
};

// Addresses in shared memory.
template <ForwardSharedBiasConfig kConfig>
struct SharedBiasStages {
  static constexpr int kSlab = kConfig.kSlabColumns;
  using State = PipelineState<kConfig.kStages>;
  using QTile = SlabTile<kConfig.block_q, kConfig.depth(), kSlab>;
  using KTile = SlabTile<kConfig.share(), kConfig.depth(), kSlab>;
  using VTile = SlabTile<kConfig.share(), kSlab, kSlab>;

  ATTNJIT_DEVICE static uint32 q(uint32 slot) {
    return ptx::shared_base() + slot * kConfig.stage_bytes();
  }
  ATTNJIT_DEVICE static uint32 k(uint32 slot, int consumer) {
    return q(slot) + kConfig.kQBytes + consumer * kConfig.share_bytes();
  }
  ATTNJIT_DEVICE static uint32 v(uint32 slot, int consumer) {
    return k(slot, consumer) + kConfig.k_bytes();
  }
  // The output of a consumer in the place of its K and V, as [group of columns][thread].
  ATTNJIT_DEVICE static uint32 part(uint32 slot, int consumer, int n, int thread) {
    return k(slot, consumer) + 16 * (128 * n + thread);
  }
  // The reference of a row, and its sums of probabilities: as they are, and rounded.
  ATTNJIT_DEVICE static uint32 row(uint32 slot, int consumer, int row) {
    return ptx::shared_base() + kConfig.rows_offset() +
           16 * ((slot * kConfig.kConsumers + consumer) * kConfig.block_q + row);
  }
  // Whether the reference suited the scores of each warp, a word each.
  ATTNJIT_DEVICE static uint32 suited(uint32 slot, int consumer) {
    return ptx::shared_base() + kConfig.suited_offset() +
           16 * (slot * kConfig.kConsumers + consumer);
  }
  // A bit for each row of the consumer's K, whether queries see its key; the last word may be
  // spare.
  ATTNJIT_DEVICE static uint32 kept(uint32 slot, int consumer) {
    return ptx::shared_base() + kConfig.kept_offset() + 16 * (slot * kConfig.kConsumers + consumer);
  }
  // 16 rows of ones, the operand that sums probabilities up.
  ATTNJIT_DEVICE static uint32 ones() { return ptx::shared_base() + kConfig.ones_offset(); }
  // The first threads fill them.
  ATTNJIT_DEVICE static void fill_ones(int thread) {
    if (16 * thread >= kConfig.kOnesBytes) return;
    constexpr uint32 kPair = pair_of_ones(kConfig.dtype);
    ptx::store_shared_16(ones() + 16 * thread, {{kPair, kPair, kPair, kPair}});
    ptx::fence_async_proxy();  // wgmma reads them
  }
  // Q and K have landed and the bits of keys are there; V has landed; its dropped rows are zeros;
  // the parts of all consumers are there; the stage has been used and merged.
  ATTNJIT_DEVICE static uint32 qk_full(uint32 slot) { return barrier(0, slot); }
  ATTNJIT_DEVICE static uint32 v_landed(uint32 slot) { return barrier(1, slot); }
  ATTNJIT_DEVICE static uint32 v_full(uint32 slot) { return barrier(2, slot); }
  ATTNJIT_DEVICE static uint32 parts_full(uint32 slot) { return barrier(3, slot); }
  ATTNJIT_DEVICE static uint32 empty(uint32 slot) { return barrier(4, slot); }

  ATTNJIT_DEVICE static void init_barriers() {
    for (uint32 slot = 0; slot < kConfig.kStages; ++slot) {
      ptx::barrier_init(qk_full(slot), 1 + kConfig.kConsumers);
      ptx::barrier_init(v_landed(slot), 1);
      ptx::barrier_init(v_full(slot), kConfig.kConsumers);
      ptx::barrier_init(parts_full(slot), 4 * kConfig.kConsumers);  // warps
      ptx::barrier_init(empty(slot), 4 * kConfig.kConsumers);
    }
    ptx::barrier_init_fence();
  }

 private:
  static_assert(kConfig.share_bytes() >= kSlab / 8 * 128 * 16);
  ATTNJIT_DEVICE static uint32 barrier(int kind, uint32 slot) {
    return ptx::shared_base() + kConfig.barriers_offset() + 8 * (kind * kConfig.kStages + slot);
  }
};

}  // namespace attnjit::kernel
