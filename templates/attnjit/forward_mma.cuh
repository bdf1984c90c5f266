#pragma once
#include "attnjit/forward_config.h"
#include "attnjit/forward_params.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/softmax.cuh"
#include "attnjit/tile/copy.cuh"
#include "attnjit/tile/key_order.cuh"
#include "attnjit/tile/shared_tile.cuh"

// The portable forward: out = softmax(scale q k^T + features) v for every GPU from sm_80 on,
// with mma.sync, ldmatrix and cp.async.
//
//   q   [batch, Hq,  Lq, D ]      out [batch, Hq, Lq, Dv]
//   k   [batch, Hkv, Lk, D ]      lse [batch, Hq, Lq]
//   v   [batch, Hkv, Lk, Dv]
//
// One thread block computes block_q rows of one head and walks over the keys in tiles:
//
//                 block_kv keys ->
//              +------+------+------+----          each warp owns 16 row_tiles() rows;
//    warp 0    |      |      |      |              its scores, probabilities and output
//    warp 1    |  S = Q K^T, tile by tile          stay in its registers
//    ...       |      |      |      |
//              +------+------+------+----
//
// Shared memory: [ Q, at the end O | K: num_stages tiles | V: num_stages tiles ], swizzled as
// tile/shared_tile.cuh has it. Q is read again for each tile; K and V are streamed by cp.async.
namespace attnjit::kernel {

template <ForwardConfig kConfig, class Features>
struct Forward {
  static_assert(why_invalid(kConfig) == nullptr, "why_invalid(config) in forward_config.h");
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kRowTiles = kConfig.row_tiles();
  static constexpr int kGroups = kConfig.block_kv / 8;                // of 8 keys
  static constexpr int kOutGroups = kConfig.padded_head_dim_v() / 8;  // of 8 columns
  static constexpr int kStages = kConfig.num_stages;
  using QTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim()>;
  using OutTile = SharedTile<kConfig.block_q, kConfig.padded_head_dim_v()>;
  using KTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim()>;
  using VTile = SharedTile<kConfig.block_kv, kConfig.padded_head_dim_v()>;

  // A tile of keys to be worked on; none after the last.
  struct Job {
    int tile;
    TileUse use;
    ATTNJIT_DEVICE bool exists() const { return use != TileUse::kSkip; }
  };

  const ForwardParams& params;
  Features features;
  Block block;
  KeyRange keys;
  int next_tile, end_tile;
  const uint16 *k, *v;  // of the block's kv head
  OnlineSoftmax<kRowTiles> softmax;
  Scores<kRowTiles, kOutGroups> out;

  ATTNJIT_DEVICE Forward(const ForwardParams& p, const Features& f) : params(p), features(f) {}

  ATTNJIT_DEVICE QTile q_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE OutTile out_tile() const { return {ptx::shared_base()}; }
  ATTNJIT_DEVICE KTile k_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + slot * kConfig.k_bytes()};
  }
  ATTNJIT_DEVICE VTile v_tile(int slot) const {
    return {ptx::shared_base() + kConfig.q_region_bytes() + kStages * kConfig.k_bytes() +
            slot * kConfig.v_bytes()};
  }

  template <class T>
  ATTNJIT_DEVICE static T* head_of(T* base, const RowStrides& strides, int batch, int head) {
    return base + batch * strides.batch + head * strides.head;
  }

  // Finds the block's place. Later rows come first: under a causal mask they take longest.
  ATTNJIT_DEVICE void locate() {
    const uint32 index = ptx::block_index();
    const uint32 plane = index / params.num_q_tiles;
    const int q_tile_index = params.num_q_tiles - 1 - static_cast<int>(index % params.num_q_tiles);
    block.batch = static_cast<int>(plane / params.num_heads_q);
    block.head = static_cast<int>(plane % params.num_heads_q);
    block.seqlen_q = block.query_len = params.seqlen_q;
    block.seqlen_kv = block.kv_len = params.seqlen_kv;
    features.set_lengths(block);
    block.first_query = q_tile_index * kConfig.block_q;
    const int end = block.first_query + kConfig.block_q;
    block.end_query = end < block.query_len ? end : block.query_len;
    const int lane = ptx::lane_index();
    block.thread_query = block.first_query + ptx::warp_index() * 16 * kRowTiles + lane / 4;
    block.thread_key = KeyOrder::thread_key(lane);
    const int kv_head = block.head / kConfig.gqa_ratio;
    k = head_of(static_cast<const uint16*>(params.k), params.k_strides, block.batch, kv_head);
    v = head_of(static_cast<const uint16*>(params.v), params.v_strides, block.batch, kv_head);
    features.begin(block);
    keys = {0, block.kv_len};
    features.narrow(block, keys);
    next_tile = keys.begin / kConfig.block_kv;
    end_tile = (keys.end + kConfig.block_kv - 1) / kConfig.block_kv;
  }

  ATTNJIT_DEVICE Job next_job() {
    while (next_tile < end_tile) {
      const int tile = next_tile++;
      const TileUse use = features.use(block, tile);
      if (use != TileUse::kSkip) return {tile, use};
    }
    return {0, TileUse::kSkip};
  }

  ATTNJIT_DEVICE void load_q() {
    const uint16* q =
        head_of(static_cast<const uint16*>(params.q), params.q_strides, block.batch, block.head) +
        block.first_query * params.q_strides.row;
    load_tile<kConfig.aligned, kConfig.head_dim, kThreads>(
        q_tile(), q, params.q_strides.row,
        [&](int row) { return block.first_query + row < block.end_query; });
  }
  // Keys that no query of the block sees are not read but zeroed: whatever is stored there, a
  // NaN included, would reach the output as 0 * NaN.
  template <int kColumns, class Tile>
  ATTNJIT_DEVICE void load_keys(const Tile& tile, const uint16* head, int64 row_stride, int index) {
    const int first = index * kConfig.block_kv;
    load_tile<kConfig.aligned, kColumns, kThreads>(
        tile, head + first * row_stride, row_stride, [&](int row) {
          const int key = first + row;
          return key >= keys.begin && key < keys.end && features.reads_key(key);
        });
  }
  ATTNJIT_DEVICE void load_k(int slot, const Job& job) {
    if (job.exists()) {
      load_keys<kConfig.head_dim>(k_tile(slot), k, params.k_strides.row, job.tile);
    }
  }
  ATTNJIT_DEVICE void load_v(int slot, const Job& job) {
    if (job.exists()) {
      load_keys<kConfig.head_dim_v>(v_tile(slot), v, params.v_strides.row, job.tile);
    }
  }

  // scores = Q K^T
  ATTNJIT_DEVICE void multiply_q_k(Scores<kRowTiles, kGroups>& scores, const KTile& tile) {
    const int lane = ptx::lane_index();
    const int q_row = ptx::warp_index() * 16 * kRowTiles + (lane & 15);
    for_each_score(scores, [](float& score, int, int, int) { score = 0.0f; });
#pragma unroll
    for (int depth = 0; depth < kConfig.padded_head_dim() / 16; ++depth) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m] = ptx::load_fragment_a(q_tile().address(q_row + 16 * m, 2 * depth ^ (lane >> 4)));
      }
#pragma unroll
      for (int n = 0; n < kGroups; n += 2) {
        const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 4);
        const ptx::FragmentBPair b =
            ptx::load_fragment_b(tile.address(row, 2 * depth ^ (lane >> 3 & 1)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(scores[m][n + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // out += P V. A score fragment is laid out as an operand already: two column groups of S are
  // the 16 columns of one A fragment.
  ATTNJIT_DEVICE void multiply_p_v(const Scores<kRowTiles, kGroups>& p, const VTile& tile) {
    const int lane = ptx::lane_index();
#pragma unroll
    for (int n = 0; n < kGroups; n += 2) {
      ptx::FragmentA a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m].word[0] = ptx::pack<kConfig.dtype>(p[m][n][0], p[m][n][1]);
        a[m].word[1] = ptx::pack<kConfig.dtype>(p[m][n][2], p[m][n][3]);
        a[m].word[2] = ptx::pack<kConfig.dtype>(p[m][n + 1][0], p[m][n + 1][1]);
        a[m].word[3] = ptx::pack<kConfig.dtype>(p[m][n + 1][2], p[m][n + 1][3]);
      }
      const int row = KeyOrder::row(n, lane & 7) + 2 * (lane >> 3 & 1);
#pragma unroll
      for (int column = 0; column < kOutGroups; column += 2) {
        const ptx::FragmentBPair b =
            ptx::load_fragment_b_transposed(tile.address(row, column ^ (lane >> 4)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column], a[m], b.word[0]);
          ptx::multiply_accumulate<kConfig.dtype>(out[m][column + 1], a[m], b.word[1]);
        }
      }
    }
  }

  // Works on the tile in `slot`; before_v() runs between the two products.
  template <class BeforeV>
  ATTNJIT_DEVICE void attend(const Job& job, int slot, BeforeV before_v) {
    const int first_key = job.tile * kConfig.block_kv;
    Scores<kRowTiles, kGroups> scores;
    features.fetch(block, first_key, job.use);
    multiply_q_k(scores, k_tile(slot));
    before_v();
    if constexpr (kConfig.scale_first) {
      for_each_score(scores, [&](float& score, int, int, int) { score *= params.score_scale; });
    }
    features.add(block, scores);
    if (job.use == TileUse::kMasked) features.mask(block, scores, first_key);
    softmax.step(scores, out, params.exponent_scale);
    multiply_p_v(scores, v_tile(slot));
  }

  // One buffer each for K and V: V streams in while S is computed, the next K under P V.
  ATTNJIT_DEVICE void walk_alternating() {
    Job job = next_job();
    load_k(0, job);
    ptx::copy_async_commit();
    while (job.exists()) {
      ptx::copy_async_wait<0>();
      ptx::block_sync();  // K is there for all; all are done with the previous V
      load_v(0, job);
      ptx::copy_async_commit();
      const Job next = next_job();
      attend(job, 0, [&] {
        ptx::copy_async_wait<0>();
        ptx::block_sync();  // V is there for all; all are done with this K
        load_k(0, next);
        ptx::copy_async_commit();
      });
      job = next;
    }
  }

  // A ring of kStages tiles of K and V, kStages - 1 of them ahead; one group of copies a tile.
  ATTNJIT_DEVICE void walk_ring() {
    Job jobs[kStages];  // jobs[0] is worked on, the others are on their way
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      jobs[s] = next_job();
      load_k(s, jobs[s]);
      load_v(s, jobs[s]);
      ptx::copy_async_commit();
    }
    for (int slot = 0; jobs[0].exists(); slot = slot + 1 == kStages ? 0 : slot + 1) {
      ptx::copy_async_wait<kStages - 2>();
      ptx::block_sync();  // this tile is there for all; all are done with the one before
      const int freed = slot == 0 ? kStages - 1 : slot - 1;
      jobs[kStages - 1] = next_job();
      load_k(freed, jobs[kStages - 1]);
      load_v(freed, jobs[kStages - 1]);
      ptx::copy_async_commit();
      attend(jobs[0], slot, [] {});
#pragma unroll
      for (int s = 0; s + 1 < kStages; ++s) jobs[s] = jobs[s + 1];
    }
  }

  // Divides by the sum, writes lse, and stages the rows in shared memory for 16-byte stores.
  ATTNJIT_DEVICE void write() {
    ptx::copy_async_wait<0>();
    ptx::block_sync();  // all are done with Q, whose place O takes
    const int lane = ptx::lane_index();
    const int warp_row = ptx::warp_index() * 16 * kRowTiles + lane / 4;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = block.thread_query + 16 * m + 8 * h;
        RowState row = softmax.finish(m, h);
        features.finish(block, query, row);
        const bool dead = row.sum == 0.0f;
        write_lse(query, dead ? -ptx::infinity() : row.max + ptx::log2_approx(row.sum) * kLn2);
        const float inverse = 1.0f / row.sum;
#pragma unroll
        for (int n = 0; n < kOutGroups; ++n) {
          // A select, not a product with 0: the sum of a dead row may hold NaN.
          const float low = dead ? 0.0f : out[m][n][2 * h] * inverse;
          const float high = dead ? 0.0f : out[m][n][2 * h + 1] * inverse;
          ptx::store_shared_4(out_tile().address(warp_row + 16 * m + 8 * h, n) + 4 * (lane & 3),
                              ptx::pack<kConfig.dtype>(low, high));
        }
      }
    }
    ptx::block_sync();  // O is complete
    uint16* target =
        head_of(static_cast<uint16*>(params.out), params.out_strides, block.batch, block.head) +
        block.first_query * params.out_strides.row;
    store_tile<kConfig.aligned, kConfig.head_dim_v, kThreads>(
        out_tile(), target, params.out_strides.row, block.seqlen_q - block.first_query);
  }
  ATTNJIT_DEVICE void write_lse(int query, float value) {
    if (params.lse == nullptr || (ptx::lane_index() & 3) != 0 || query >= block.seqlen_q) return;
    const int64 plane = static_cast<int64>(block.batch) * params.num_heads_q + block.head;
    ptx::store_global(params.lse + plane * block.seqlen_q + query, value);
  }

  ATTNJIT_DEVICE void run() {
    locate();
    load_q();  // joins the first group of copies
    softmax.begin();
    for_each_score(out, [](float& element, int, int, int) { element = 0.0f; });
    if constexpr (kStages == 1) {
      walk_alternating();
    } else {
      walk_ring();
    }
    write();
  }
};

template <ForwardConfig kConfig, class... Features>
ATTNJIT_DEVICE void forward(const ForwardParams& params, Features... features) {
  Forward<kConfig, FeatureSet<Features...>>(params, FeatureSet<Features...>(features...)).run();
}

}  // namespace attnjit::kernel
