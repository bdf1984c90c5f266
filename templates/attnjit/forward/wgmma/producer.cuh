#pragma once
#include "attnjit/forward/wgmma/shared.cuh"
#include "attnjit/forward/wgmma/walk.cuh"
#include "attnjit/ptx/elect.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/key_order.h"
#include "attnjit/tile/strided_keys.cuh"
#include "attnjit/tile/tile_pages.cuh"
#include "attnjit/tile/unread_keys.cuh"

// The warps of the Hopper forward that do not multiply: one walks over the blocks of rows and their
// tiles, and loads; another zero-fills rows of V where tiles may have unread keys.
namespace attnjit::kernel {

template <ForwardWgmmaConfig kConfig, class Features>
struct ForwardProducer {
  using Shared = ForwardShared<kConfig>;
  using Walk = ForwardWalk<kConfig, Features, true>;

  const ForwardWgmmaParams& params;
  Shared shared;
  Walk walk;
  typename Shared::QueryState query_state = {};
  typename Shared::TileState k_state = {}, v_state = {};

  // Subtiles of Q that have a buffer before the last products of the previous rows. The operands of
  // these products, and K of the new rows, are loaded before the other subtiles.
  static constexpr int kSpareSubtiles = Shared::kQSubtiles - Shared::kConsumers;
  static constexpr int kEarlySubtiles =
      kSpareSubtiles < Shared::kConsumers ? kSpareSubtiles : Shared::kConsumers;
  // A work tile, its sequence's first row, and the batch element of the tensor.
  struct Queries {
    RowWorkTile work;
    int begin, batch;
  };

  static constexpr bool kPaged = Features::kPageSize > 0;

  // The coordinates of K and V of a job, and whether rows of V are zero-filled.
  struct Source {
    TypeIf<kPaged, PagedTile<kConfig.block_kv, Features::kPageSize>, KeySource<>> keys;
    bool zero_fills;
  };

  ATTNJIT_DEVICE ForwardProducer(const ForwardWgmmaParams& p, const Features& f)
      : params(p), walk(p, f) {}

  // Loads K of a tile before V of the previous tile, which is needed only after the softmax: Q, K0,
  // zeros, K1, V0, K2, V1, ...
  ATTNJIT_DEVICE void run() {
    ForwardJob job = walk.next();
    if (ptx::elect_lane()) shared.put(Shared::kFirstJob, job.as_word());
    if constexpr (kConfig.teams > 1) {
      if (!job.exists()) {  // a team without rows: its consumer waits for the job alone
        ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.q_full(0));
        return;
      }
    }
    Source before = {key_source(round_up(params.base.seqlen_kv, kConfig.block_kv)), false};
    while (job.exists()) {
      const bool first = job.first();
      const Queries queries = {walk.work_tile, walk.block.q_begin, walk.block.tensor_batch};
      if (first) load_q<0, kEarlySubtiles>(queries);
      const int first_key = job.tile * kConfig.block_kv;
      const Source now = {key_source(first_key), walk.zero_fills_keys(job)};
      if (ptx::elect_lane()) walk.features.prefetch_tile(walk.block, first_key, params.bias);
      job = walk.next();
      load_k(now, job);
      load_v(before);
      if (first) load_q<kEarlySubtiles, Shared::kConsumers>(queries);
      before = now;
    }
    load_v(before);
  }

 private:
  // The source of the walk's last job. Pages are looked up here and used when the next job is
  // known.
  ATTNJIT_DEVICE auto key_source(int first_key) const {
    const int head = walk.block.head / kConfig.gqa_ratio;
    if constexpr (kPaged) {
      return PagedTile<kConfig.block_kv, Features::kPageSize>{
          first_key, head,
          walk.features.template find_pages<kConfig.block_kv>(first_key, walk.keys)};
    } else {
      return KeySource<>{walk.block.kv_begin + first_key, head, {walk.block.tensor_batch}};
    }
  }
  // The boxes of `source` for the copy engine. All lanes of the warp call it.
  ATTNJIT_DEVICE decltype(auto) boxes_of(const Source& source) const {
    if constexpr (kPaged) {
      return walk.features.tile_source(source.keys);
    } else {
      return (source.keys);
    }
  }
  // The subtiles of consumers kBegin to kEnd - 1, a buffer at a time.
  template <int kBegin, int kEnd>
  ATTNJIT_DEVICE void load_q(const Queries& queries) {
    constexpr int kTogether = Shared::kQSubtiles / Shared::kQueries;
#pragma unroll 1
    for (int first = kBegin; first < kEnd; first += kTogether) {
      const uint32 slot = query_state.slot();
      const uint32 empty = query_state.empty();
      query_state.advance();
#pragma unroll 1
      for (int consumer = first; consumer < first + kTogether; ++consumer) {
        ptx::barrier_wait(shared.q_empty(Shared::q_subtile(slot, consumer)), empty);
        if (ptx::elect_lane()) load_q_subtile(queries, slot, consumer);
      }
    }
  }
  ATTNJIT_DEVICE void load_q_subtile(const Queries& queries, uint32 slot, int consumer) {
    const uint32 subtile = Shared::q_subtile(slot, consumer);
    const uint32 full = shared.q_full(subtile);
    shared.put_work(Shared::work_word(subtile), queries.work);
    ptx::barrier_arrive_expecting(full, kConfig.q_subtile_bytes());
    const RowWorkTile& work = queries.work;
    const int row = work.q_tile * kConfig.block_q + consumer * kConfig.kSubtileRows;
    const int query = queries.begin + row / kConfig.pack_gqa_heads();
    const uint32 first = shared.q(slot, consumer);
#pragma unroll 1
    for (int slab = 0; slab < Shared::QTile::kSlabs; ++slab) {
      const uint32 target = first + slab * Shared::QTile::kSlabBytes;
      if constexpr (kConfig.pack_gqa) {
        ptx::tensor_load(target, params.q, full, 64 * slab, 0, query, work.head / kConfig.gqa_ratio,
                         queries.batch);
      } else {
        ptx::tensor_load(target, params.q, full, 64 * slab, query, work.head, queries.batch);
      }
    }
  }
  ATTNJIT_DEVICE void load_k(const Source& source, const ForwardJob& next) {
    const uint32 slot = k_state.slot();
    ptx::barrier_wait(shared.k_empty(slot), k_state.empty());
    k_state.advance();
    const auto& boxes = boxes_of(source);
    if (!ptx::elect_lane()) return;
    shared.put(Shared::job_word(slot), next.as_word());
    const uint32 full = shared.k_full(slot);
    ptx::barrier_arrive_expecting(full, kConfig.k_bytes());
    load_tile<kConfig.padded_head_dim()>(shared.k(slot), params.k, params.k_tail, full, boxes);
  }
  ATTNJIT_DEVICE void load_v(const Source& source) {
    const uint32 slot = v_state.slot();
    ptx::barrier_wait(shared.v_empty(slot), v_state.empty());
    v_state.advance();
    const auto& boxes = boxes_of(source);
    if (!ptx::elect_lane()) return;
    const uint32 full = source.zero_fills ? shared.v_landed(slot) : shared.v_full(slot);
    ptx::barrier_arrive_expecting(full, kConfig.v_bytes());
    load_tile<kConfig.padded_head_dim_v()>(shared.v(slot), params.v, params.v_tail, full, boxes);
  }
  template <int kColumns, class Boxes>
  ATTNJIT_DEVICE void load_tile(uint32 tile, const TensorMap& map, const TensorMap& tail,
                                uint32 full, const Boxes& boxes) {
    load_strided_keys<kColumns, kConfig.block_kv, Features::kPacksSequences && !kPaged>(
        tile, map, tail, full, boxes, kPaged ? Features::kPageSize : params.base.seqlen_kv);
  }
};

// Follows the walk and zero-fills the rows of unread keys.
template <ForwardWgmmaConfig kConfig, class Features>
ATTNJIT_DEVICE void zero_fill_keys(const ForwardWgmmaParams& params, const Features& features) {
  using Shared = ForwardShared<kConfig>;
  using VTile = typename Shared::VTile;
  const Shared shared;
  ForwardWalk<kConfig, Features> walk(params, features);
  typename Shared::TileState state{1};  // the first V is the tile of zeros
  uint32 phases = 0;  // of v_landed, which few tiles go through; a bit for each slot
  for (;; state.advance()) {
    const ForwardJob job = walk.next();
    if (!job.exists()) return;
    if (!walk.zero_fills_keys(job)) continue;
    const uint32 slot = state.slot();
    const UnreadKeys<kConfig.block_kv, kConfig.page_kv> unread(
        [&](int key) { return walk.zero_fills_key(job.tile * kConfig.block_kv + key); });
    ptx::barrier_wait(shared.v_landed(slot), phases >> slot & 1);
    phases ^= 1u << slot;
    unread.template zero_fill<VTile>(shared.v(slot));
    ptx::fence_async_proxy();
    ptx::warp_sync();  // all rows are zero
    ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.v_full(slot));
  }
}

}  // namespace attnjit::kernel
