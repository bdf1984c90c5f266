#pragma once
#include "attnjit/backward/fragment_sum_config.h"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/tile/copy.cuh"
#include "attnjit/tile/packed_rows.cuh"
#include "attnjit/tile/shared_tile.cuh"

// Rounds a gradient that was added up in fp32 fragments and writes it row by row. One thread block
// takes kRowBlock rows of one head, of one sequence where these are packed; they pass through
// shared memory for 16-byte stores.
namespace attnjit::kernel {

template <FragmentSumConfig kConfig>
struct FragmentSum {
  static constexpr int kGroups = kConfig.groups();
  static constexpr int kWarps = kConfig.num_threads() / 32;
  using Rows = SharedTile<kRowBlock, round_up(kConfig.head_dim, 16)>;

  const FragmentSumParams& params;

  ATTNJIT_DEVICE void run() const {
    const int64 plane = ptx::block_index() / params.num_row_blocks;
    const int block = static_cast<int>(ptx::block_index() % params.num_row_blocks);
    const Rows rows{ptx::shared_base()};
    const float* fragments =
        params.sums + (plane * params.num_row_blocks + block) * (kRowBlock * 8 * kGroups);
    const int lane = ptx::lane_index();
    ptx::wait_for_previous_kernel();
    const uint32 stored = find_stored(plane, block);
#pragma unroll 4
    for (int i = ptx::warp_index(); i < kRowBlock / 16 * kGroups; i += kWarps) {
      float value[4] = {};
      if ((stored >> i / kGroups & 1) != 0) ptx::load_fragment(value, fragments + i * 128);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = i / kGroups * 16 + 8 * h + lane / 4;
        ptx::store_shared_4(rows.address(row, i % kGroups) + 4 * (lane & 3),
                            ptx::pack<kConfig.dtype>(value[2 * h] * params.factor,
                                                     value[2 * h + 1] * params.factor));
      }
    }
    ptx::block_sync();                                   // the rows are complete
    int first = block * kRowBlock, end = params.seqlen;  // rows of the target
    if constexpr (kConfig.packed) {
      const PackedTile found = find_tile(params.packed, block, kRowBlock);
      const PackedRange range = range_of(params.packed, found.sequence);
      first = range.begin + found.tile * kRowBlock;
      end = range.begin + range.size;
    }
    uint16* const target = static_cast<uint16*>(params.target) +
                           plane / params.num_heads * params.target_strides.batch +
                           plane % params.num_heads * params.target_strides.head +
                           first * params.target_strides.row;
    store_tile<kConfig.aligned, kConfig.head_dim, kConfig.num_threads()>(
        rows, [&](int row) { return target + row * params.target_strides.row; }, end - first);
  }

 private:
  // Which 16 rows of a block have sums, a bit each: the others had no key, and no sum was stored.
  ATTNJIT_DEVICE uint32 find_stored(int64 plane, int block) const {
    if constexpr (!kConfig.stored) return ~0u;
    const ptx::Vector16 semaphores =
        ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(params.dq_semaphores) +
                                 plane * params.num_row_blocks + block);
    uint32 stored = 0;
#pragma unroll
    for (int i = 0; i < kRowBlock / 16; ++i) stored |= semaphores.word[i] != 0 ? 1u << i : 0;
    return stored;
  }
};

template <FragmentSumConfig kConfig>
ATTNJIT_DEVICE void fragment_sum(const FragmentSumParams& params) {
  FragmentSum<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
