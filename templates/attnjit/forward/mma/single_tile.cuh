#pragma once
#include "attnjit/forward/mma/single_tile_config.h"
#include "attnjit/forward/rows.cuh"
#include "attnjit/forward/softmax.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/resident.cuh"
#include "attnjit/tile/copy.cuh"
#include "attnjit/tile/products.cuh"
#include "attnjit/tile/store_warp_rows.cuh"
#include "attnjit/tile/team.cuh"

// The forward of planes of one tile, as windows of an image are: out = softmax(scale q k^T +
// features) v for every GPU from sm_80 on. Shapes and strides are those of forward/mma/kernel.cuh.
//
//                block_kv keys, step_keys() at a time ->
//              +------+------+----
//    warp 0    |      |      |         each warp owns 16 rows; its scores, probabilities and
//    warp 1    |  S = Q K^T  |         output stay in its registers
//    ...       |      |      |
//              +------+------+----
//
// A thread block stays on its SM and walks over planes, in PlaneOrder: a bias that planes share
// stays in registers. While it works on a plane, cp.async brings Q, K and V of the next one.
namespace attnjit::kernel {

template <ForwardSingleTileConfig kConfig, class Features, ScoreShape kShape = kConfig.scores()>
struct ForwardSingleTile {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in forward/mma/single_tile_config.h");
  static constexpr DType kDType = kConfig.dtype;
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kSteps = kConfig.num_steps(), kStepKeys = kConfig.step_keys();
  static constexpr int kGroups = kStepKeys / 8;
  static constexpr int kOutGroups = kConfig.padded_head_dim_v() / 8;
  using Team = BlockTeam<kThreads>;
  using QTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim()>;
  using KTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim()>;
  using VTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim_v()>;
  using Output = Fragments<1, kOutGroups>;
  // Rows that are seen at once have their maximum; against another reference the rounded
  // probabilities have a sum of their own (forward/softmax.cuh).
  static constexpr bool kWholeRows = kSteps == 1;
  using Softmax =
      typename SoftmaxOf<kWholeRows ? SoftmaxPolicy::kRunningMax : SoftmaxPolicy::kMaxFree, kDType,
                         1>::Type;

  const ForwardParams& params;
  const PlaneOrder& order;
  const uint64 num_blocks;
  Features features;
  Block block;
  const int warp_row;  // first row of the warp

  ATTNJIT_DEVICE ForwardSingleTile(const ForwardSingleTileParams& p, const Features& f)
      : params(p.base),
        order(p.order),
        num_blocks(p.num_blocks),
        features(f),
        warp_row(16 * ptx::warp_index()) {}

  ATTNJIT_DEVICE static uint32 stage(int slot) {
    return ptx::shared_base() + slot * kConfig.stage_bytes();
  }
  ATTNJIT_DEVICE static QTile q_tile(int slot) { return {stage(slot)}; }
  ATTNJIT_DEVICE static KTile k_tile(int slot) { return {stage(slot) + kConfig.q_bytes()}; }
  ATTNJIT_DEVICE static VTile v_tile(int slot) {
    return {stage(slot) + kConfig.q_bytes() + kConfig.k_bytes()};
  }

  ATTNJIT_DEVICE void run() {
    const auto planes = static_cast<uint64>(params.num_planes);
    const uint64 index = ptx::block_index();
    auto plane = static_cast<uint32>(planes * index / num_blocks);
    const auto end = static_cast<uint32>(planes * (index + 1) / num_blocks);
    Plane here = plane_of(plane);
    if (plane < end) load(0, here);
    ptx::copy_async_commit();
    for (int slot = 0; plane < end; ++plane, slot ^= 1) {
      const Plane next = plane_of(plane + 1);
      enter(here);
      features.fetch(block, 0, TileUse::kMasked);  // arrives while the threads wait
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // the plane is there for all; all are done with the one before
      if (plane + 1 < end) load(slot ^ 1, next);
      ptx::copy_async_commit();
      enter(here);
      attend(slot);
      here = next;
    }
  }

 private:
  struct Plane {
    int batch, head;
  };
  ATTNJIT_DEVICE Plane plane_of(uint32 index) const {
    const auto batch = static_cast<uint32>(order.batch);
    return {order.batch_element(index % batch), static_cast<int>(index / batch)};
  }
  // Turns to a plane.
  ATTNJIT_DEVICE void enter(const Plane& plane) {
    block = locate_rows<kConfig.block_q, 1>(params, features, {plane.batch, plane.head, 0, 0});
    const int lane = ptx::lane_index();
    block.thread_row = warp_row + ScoreShape(kShape).lane_row(lane);
    block.thread_key = ScoreShape(kShape).lane_key(lane);
    features.begin(block);
  }

  // Starts loading a plane. Rows past its end are zeros, and so are keys that none of its queries
  // reads: whatever is stored there, a NaN included, would reach the output as 0 * NaN.
  ATTNJIT_DEVICE void load(int slot, const Plane& plane) {
    enter(plane);
    KeyRange keys = {0, block.kv_len};
    features.narrow(Team(), block, keys);
    const int kv_head = block.head / kConfig.gqa_ratio;
    load_rows<kConfig.head_dim>(q_tile(slot), params.q, params.q_strides, block.head,
                                [&](int row) { return row < block.query_len; });
    const auto reads = [&](int key) {
      return key >= keys.begin && key < keys.end && features.reads_key(key);
    };
    load_rows<kConfig.head_dim>(k_tile(slot), params.k, params.k_strides, kv_head, reads);
    load_rows<kConfig.head_dim_v>(v_tile(slot), params.v, params.v_strides, kv_head, reads);
  }
  template <int kColumns, class Tile, class Keep>
  ATTNJIT_DEVICE void load_rows(const Tile& tile, const void* base, const RowStrides& strides,
                                int head, Keep keep) const {
    const auto* const source =
        head_of(static_cast<const uint16*>(base), strides, block.tensor_batch, head);
    load_tile<kConfig.aligned, kColumns, kThreads>(
        tile, [&](int row) { return source + row * strides.row; }, keep);
  }

  // Computes and writes the warp's rows of the plane in `slot`.
  ATTNJIT_DEVICE void attend(int slot) {
    Softmax softmax;
    Output out;
    Fragments<1, 1> sums;  // of rounded probabilities, where they are kept apart
    softmax.begin(params.exponent_scale);
    out = 0.0f;
    sums = 0.0f;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int first_key = step * kStepKeys;
      if (step > 0 && first_key >= block.kv_len) break;
      Fragments<1, kGroups> scores;
      compute_scores(scores, slot, step);
      if (step + 1 < kSteps) features.fetch(block, first_key + kStepKeys, TileUse::kMasked);
      Probabilities<1, kGroups> probabilities;
      softmax.step(scores, probabilities, params.exponent_scale, [&](int m, int h, float factor) {
        if constexpr (kWholeRows) return;
        out.scale_row(m, h, factor);
        sums.scale_row(m, h, factor);
      });
      if constexpr (!kWholeRows) add_row_sums<kDType>(sums, probabilities);
      add_key_product<kDType>(out, probabilities, v_tile(slot), first_key);
    }
    write(softmax, sums, out);
  }
  // Of the warp's rows and the keys of a step.
  ATTNJIT_DEVICE void compute_scores(Fragments<1, kGroups>& scores, int slot, int step) {
    const int first_key = step * kStepKeys;
    // The class of a bit mask's tile would take as long to read as its bits.
    const TileUse use = Features::kAwaits ? TileUse::kMasked : features.use(block, step);
    scores = 0.0f;
    add_scores<kDType, kConfig.padded_head_dim()>(scores, q_tile(slot), warp_row, k_tile(slot),
                                                  first_key);
    const float scale = kConfig.scale_first ? params.score_scale : 1.0f;
    features.add(block, scores, features.transform(block, scores, scale, first_key), first_key);
    if (use != TileUse::kPlain) features.mask(block, scores, first_key);
  }

  ATTNJIT_DEVICE void write(const Softmax& softmax, const Fragments<1, 1>& sums,
                            const Output& out) {
    ClosedRow rows[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      RowState state = softmax.finish(0, h, kConfig.scale_first ? 1.0f : params.score_scale);
      if constexpr (!kWholeRows) state.divisor = sums[0][0][2 * h];
      rows[h] = close_row<1>(features, block, state, 8 * h);
      features.close(block, rows[h]);
      const RowOwner& owner = rows[h].owner;
      if (params.lse != nullptr && (ptx::lane_index() & 3) == 0 && owner.query < block.seqlen_q) {
        ptx::store_global(params.lse + lse_index<false>(params, block, owner), rows[h].lse);
      }
    }
    uint16* const target = head_of(static_cast<uint16*>(params.out), params.out_strides,
                                   block.tensor_batch, block.head) +
                           warp_row * params.out_strides.row;
    store_warp_rows<kDType, kConfig.aligned, kConfig.head_dim_v>(
        target, params.out_strides.row, block.seqlen_q - warp_row,
        [&](int n, int e) { return rows[e / 2].scaled(out[0][n][e]); });
  }
};

template <ForwardSingleTileConfig kConfig, class... Features>
ATTNJIT_DEVICE void forward_single_tile(const ForwardSingleTileParams& params,
                                        Features... features) {
  constexpr int kSteps = kConfig.num_steps();
  using Set = FeatureSet<ResidentOrPlain<Features, kSteps>...>;
  ForwardSingleTile<kConfig, Set>(params, Set(ResidentOrPlain<Features, kSteps>(features)...))
      .run();
}

}  // namespace attnjit::kernel
