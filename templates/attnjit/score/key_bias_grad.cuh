#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/reduce.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/bias_grad_params.h"
#include "attnjit/score/block.cuh"

// Policies for the gradient of a bias in the Hopper backward: dS, summed over the axes that dbias
// reduces. Either the warps that have keys add their fragments, 16 keys in rows and queries in
// columns,
//
//   begin_tile(block, head, first_key)   the warp's first key of a tile
//   add(ds)                              a fragment
//   end_tile()                           all of the tile's have been added
//
// or the warpgroup of dq takes rounded tiles out of shared memory: it writes them if kStores is
// true, and adds them up if kAdds is.
namespace attnjit::kernel {

// The policy without a dbias of tiles.
struct NoKeyBiasGrad {
  static constexpr bool kStores = false, kAdds = false;
  static constexpr bool kClears = false;  // tiles that the walk passes over are to be zeros
  ATTNJIT_DEVICE void begin_tile(const Block&, int, int) {}
  ATTNJIT_DEVICE void add(const float (&)[4]) {}
  ATTNJIT_DEVICE void end_tile() {}
};

// The copy engine writes dS as the warpgroup of dq reads it, in q's type, to dbias: nothing is
// reduced.
struct KeyBiasGradStore : NoKeyBiasGrad {
  static constexpr bool kStores = true, kClears = true;
  const BiasGradParams& params;

  ATTNJIT_DEVICE explicit KeyBiasGradStore(const BiasGradParams& p) : params(p) {}

  // Called for each stored tile, by one thread.
  ATTNJIT_DEVICE void mark(const BackwardParams&, int, int, int, int) const {}

  // Writes zeros to the queries and keys of a skipped tile, by a warp: 16 lanes a row of 128 keys.
  ATTNJIT_DEVICE void clear(int batch, int head, int first_query, int end_query, int first_key,
                            int end_key) const {
    const int lane = ptx::lane_index();
    const int query = first_query + lane / 16, key = first_key + 8 * (lane & 15);
    if (key >= end_key) return;
    auto* row = static_cast<uint16*>(params.data) + batch * params.batch_stride +
                head * params.head_stride + query * params.query_stride + key;
    const int64 step = 2 * params.query_stride;
    const int rows = (end_query - query + 1) / 2;
    if (end_key - key >= 8) {
#pragma unroll 8
      for (int i = 0; i < rows; ++i, row += step) {
        ptx::store_global(reinterpret_cast<ptx::Vector16*>(row), ptx::Vector16{});
      }
      return;
    }
    for (int i = 0; i < rows; ++i, row += step) {
      for (int j = 0; j < end_key - key; ++j) ptx::store_global(row + j, uint16{0});
    }
  }
};

// The same to a dbias of each plane. Tiles that the walk skips are not written: stored tiles have a
// mark, and the kernel that adds the planes up reads only these.
struct KeyBiasGradPerPlane : KeyBiasGradStore {
  static constexpr bool kClears = false;
  using KeyBiasGradStore::KeyBiasGradStore;

  ATTNJIT_DEVICE void mark(const BackwardParams& p, int batch, int head, int q_tile,
                           int kv_tile) const {
    const int64 plane = static_cast<int64>(batch) * p.num_heads_q + head;
    ptx::store_global(params.stored + (plane * p.num_q_tiles + q_tile) * p.num_kv_tiles + kv_tile,
                      uint8{1});
  }
};

// The queries are reduced: sums over a tile are added to fp32 sums, [batch][query head][key], which
// begin at 0. One thread has a key in all tiles, unless the queries of a head are split.
struct KeyBiasGradColumns : NoKeyBiasGrad {
  const BiasGradParams& params;
  float sum[2];  // of keys lane / 4 and + 8 of the warp's
  float* first;  // of these
  bool exists[2];

  ATTNJIT_DEVICE explicit KeyBiasGradColumns(const BiasGradParams& p) : params(p) {}

  ATTNJIT_DEVICE void begin_tile(const Block& block, int head, int first_key) {
    const int key = first_key + ptx::lane_index() / 4;
    first = static_cast<float*>(params.data) + block.batch * params.batch_stride +
            head * params.head_stride + key;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] = 0.0f;
      exists[h] = (ptx::lane_index() & 3) == 0 && key + 8 * h < block.operand_keys;
    }
  }
  ATTNJIT_DEVICE void add(const float (&ds)[4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] += ds[2 * h] + ds[2 * h + 1];
  }
  ATTNJIT_DEVICE void end_tile() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      ptx::add_global_if(exists[h], first + 8 * h, ptx::lanes_sum<4>(sum[h]));
    }
  }
};

// Batch or heads are reduced: the warpgroup of dq adds tiles of dS to fp32 sums, which begin at 0
// and lie as those of BiasGradAdd, [plane][query / 16][key / 32][512], but in whole tiles.
struct KeyBiasGradAdd : NoKeyBiasGrad {
  static constexpr bool kAdds = true;
  const BiasGradParams& params;

  ATTNJIT_DEVICE explicit KeyBiasGradAdd(const BiasGradParams& p) : params(p) {}

  // The sums of 16 queries by 64 keys, two fragments.
  ATTNJIT_DEVICE float* sums_of(int batch, int head, int first_query, int first_key) const {
    return static_cast<float*>(params.data) + batch * params.batch_stride +
           head / params.heads_per_plane * params.head_stride + first_query * params.query_stride +
           int64{16} * first_key;
  }
};

}  // namespace attnjit::kernel
