#pragma once
#include "attnjit/backward/dkv_wgmma/producer.cuh"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/bulk_copy.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/tile/fragments.cuh"

namespace attnjit::kernel {

// Subtiles of dq in the Hopper backward, 64 queries by 64 columns: where their sums lie, and how
// the warpgroup of dq adds to them.
//
// A warp has 16 of the queries: eight fragments of a subtile, which are contiguous in the sums and
// in shared memory, where the warp has a ring of buffers.
template <DkvWgmmaConfig kConfig, class Features>
struct BackwardDqSubtiles {
  using Shared = BackwardShared<kConfig>;
  using Subtile = Fragments<1, 8>;
  static constexpr int kFragmentBytes = 128 * 4;
  static constexpr int kSubtileBytes = 8 * kFragmentBytes;
  static constexpr int kSlabs = kConfig.padded_head_dim() / 64;
  static constexpr int kSubtiles = kConfig.block_q / 64 * kSlabs;  // of a tile
  static constexpr int kBuffers = kConfig.num_sums();
  static constexpr int kGroups = ceil_div(kConfig.head_dim, 8);  // of the columns

  const DkvWgmmaParams& params;
  BackwardWalk<kConfig, Features> walk;  // for the coordinates of the block
  Shared shared;
  const int warp = ptx::warp_index() & 3;
  const int lane = ptx::lane_index();
  uint32 num_subtiles = 0;  // that have a buffer

  ATTNJIT_DEVICE BackwardDqSubtiles(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  // Groups of columns that a subtile has.
  ATTNJIT_DEVICE static constexpr int groups_of(int subtile) {
    const int groups = kGroups - 8 * (subtile % kSlabs);
    return groups < 8 ? groups : 8;
  }
  // The first of the warp's queries.
  ATTNJIT_DEVICE int first_row(const BackwardJob& job, int subtile) const {
    return job.tile * kConfig.block_q + 64 * (subtile / kSlabs) + 16 * warp;
  }
  // Whether the subtile has sums: a tile may reach into the rows of the next packed sequence.
  ATTNJIT_DEVICE bool has_sums(const BackwardJob& job, int subtile) const {
    return !Features::kPacksSequences || kConfig.block_q == kRowBlock ||
           first_row(job, subtile) < walk.block.padded_rows;
  }
  // The warp's sums of a subtile. A thread block that owns a kv head has sums for its query
  // heads.
  ATTNJIT_DEVICE float* sums_of(const BackwardJob& job, int subtile) const {
    constexpr int kFloats = 8 * kGroups;  // of a row
    const int64 own_plane =
        static_cast<int64>(ptx::block_index()) * kConfig.gqa_ratio + job.head - walk.first_head;
    const int64 origin = kConfig.owns_kv_head ? own_plane * params.base.padded_rows
                                              : walk.padded_rows_of(job.head).first;
    return params.base.dq_sum + (origin + first_row(job, subtile)) * kFloats +
           subtile % kSlabs * 8 * 128;
  }

  ATTNJIT_DEVICE uint32 buffer_of(uint32 index) const {
    return shared.sums(index % kBuffers) + warp * kSubtileBytes;
  }
  // The next buffer, once its last subtile has been read.
  ATTNJIT_DEVICE uint32 acquire_buffer() {
    const uint32 buffer = buffer_of(num_subtiles++);
    ptx::tensor_store_wait_read<kBuffers - 1>();
    ptx::warp_sync();  // lane 0 has waited
    return buffer;
  }
  ATTNJIT_DEVICE void put(uint32 buffer, const Subtile& subtile) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      ptx::store_shared_16(buffer + n * kFragmentBytes + 4 * ptx::fragment_slot(lane, 0),
                           {ptx::as_bits(subtile[0][n][0]), ptx::as_bits(subtile[0][n][1]),
                            ptx::as_bits(subtile[0][n][2]), ptx::as_bits(subtile[0][n][3])});
    }
  }
  // Starts to add or store a buffer of the warp, as a separate group.
  ATTNJIT_DEVICE void add_to(float* sums, uint32 buffer, int bytes, bool stores = false) const {
    ptx::fence_async_proxy();
    ptx::warp_sync();  // the subtile is complete
    if constexpr (kConfig.walks_all()) ptx::bulk_store_if(lane == 0 && stores, sums, buffer, bytes);
    ptx::bulk_add_if(lane == 0 && !stores, sums, buffer, bytes);
    ptx::tensor_store_commit();
  }
};

}  // namespace attnjit::kernel
