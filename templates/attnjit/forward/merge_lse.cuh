#pragma once
#include "attnjit/forward/lse_weights.cuh"
#include "attnjit/forward/merge_lse_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/store_keys.cuh"

// Merges results that calls left for shares of the keys (forward/lse_weights.cuh). Each thread
// adds up eight columns of a row, and more of a row that is wider than a block. What a part holds
// in rows that it is dead in is not read.
namespace attnjit::kernel {

// Eight neighbouring elements of a row, `columns` of which exist. Another launch or, of a carry,
// this thread writes them.
template <DType kDType, bool kAligned>
ATTNJIT_DEVICE void load_vector(const void* data, int64 first, int columns, float (&v)[8]) {
  if constexpr (kDType == DType::kFloat32) {
    const float* const source = static_cast<const float*>(data) + first;
#pragma unroll
    for (int i = 0; i < 8; i += kAligned ? 4 : 1) {
      if constexpr (kAligned) {
        const auto four =
            ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(source + i));
#pragma unroll
        for (int j = 0; j < 4; ++j) v[i + j] = ptx::as_float(four.word[j]);
      } else {
        v[i] = i < columns ? ptx::load_global_written(source + i) : 0.0f;
      }
    }
  } else {
    const uint16* const source = static_cast<const uint16*>(data) + first;
    if constexpr (kAligned) {
      const auto eight = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(source));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[i] = ptx::widen<kDType>(static_cast<uint16>(eight.word[i / 2] >> (16 * (i & 1))));
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[i] = i < columns ? ptx::widen<kDType>(ptx::load_global(source + i)) : 0.0f;
      }
    }
  }
}

template <MergeLseConfig kConfig>
struct MergeLse {
  static_assert(why_invalid(kConfig) == nullptr,
                "why_invalid(config) in forward/merge_lse_config.h");

  const MergeLseParams& params;

  ATTNJIT_DEVICE void run() const {
    const int64 row = static_cast<int64>(ptx::block_index()) * kConfig.block_rows() +
                      ptx::thread_index() / kConfig.row_threads();
    const int first = 8 * (ptx::thread_index() % kConfig.row_threads());
    const bool exists = row < params.num_rows && first < kConfig.head_dim_v;
    const LseWeights weights(exists ? highest(row) : -ptx::infinity());
    const float total = exists ? merge(row, first, weights) : 0.0f;
    if constexpr (constexpr int kPass = kConfig.pass_columns(); kConfig.head_dim_v > kPass) {
#pragma unroll 1
      for (int c = first + kPass; exists && c < kConfig.head_dim_v; c += kPass) {
        merge(row, c, weights);
      }
    }
    ptx::block_sync();  // the lse of every row has been read, and the result may take its place
    if (exists && first == 0 && params.lse != nullptr) {
      ptx::store_global(params.lse + row, weights.lse(total));
    }
  }

 private:
  ATTNJIT_DEVICE int64 element(const RowStrides& strides, int64 row) const {
    const int64 plane = row / params.seqlen_q;
    return plane / params.num_heads * strides.batch + plane % params.num_heads * strides.head +
           row % params.seqlen_q * strides.row;
  }
  ATTNJIT_DEVICE float part_lse(int s, int64 row) const {
    return ptx::load_global_written(params.part_lses + s * params.num_rows + row);
  }
  ATTNJIT_DEVICE float highest(int64 row) const {
    float highest = -ptx::infinity();
    if constexpr (kConfig.carry) highest = ptx::load_global_written(params.carry_lse + row);
    for (int s = 0; s < params.num_parts; ++s) highest = fmaxf(highest, part_lse(s, row));
    return highest;
  }
  // Writes eight columns of out; returns the sum of the weights.
  ATTNJIT_DEVICE float merge(int64 row, int column, const LseWeights& weights) const {
    const int columns = kConfig.head_dim_v - column;
    float sum[8] = {};
    float total = 0.0f;
    if constexpr (kConfig.carry) {
      add<DType::kFloat32>(params.carry, element(params.carry_strides, row) + column, columns,
                           weights, ptx::load_global_written(params.carry_lse + row), sum, total);
    }
    const int64 first = element(params.part_strides, row) + column;
#pragma unroll 4
    for (int s = 0; s < params.num_parts; ++s) {
      add<kConfig.part_dtype>(params.parts, s * params.part_stride + first, columns, weights,
                              part_lse(s, row), sum, total);
    }
    const float inverse = weights.inverse(total);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] *= inverse;
    store_keys<kConfig.dtype, kConfig.aligned>(
        params.out, element(params.out_strides, row) + column, sum, columns, 1);
    return total;
  }
  template <DType kDType>
  ATTNJIT_DEVICE static void add(const void* data, int64 first, int columns,
                                 const LseWeights& weights, float lse, float (&sum)[8],
                                 float& total) {
    if (lse == -ptx::infinity()) return;
    const float weight = weights.weight(lse);
    float v[8];
    load_vector<kDType, kConfig.aligned>(data, first, columns, v);
    total += weight;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = fmaf(weight, v[i], sum[i]);
  }
};

template <MergeLseConfig kConfig>
ATTNJIT_DEVICE void merge_lse(const MergeLseParams& params) {
  MergeLse<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
