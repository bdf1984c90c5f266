#pragma once
#include "attnjit/backward/dkv_wgmma/producer.cuh"
#include "attnjit/ptx/accumulate.cuh"
#include "attnjit/ptx/bulk_copy.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/tile/fragments.cuh"

namespace attnjit::kernel {

// Of the warpgroup of dq of the Hopper backward: how a tile of dq comes in parts of 64 queries by
// 64 columns, where their sums lie, and how they get there.
//
// A warp has 16 of the queries. Its part, eight fragments, lies in the sums one after another as it
// does in shared memory, where the warp has a ring of buffers for parts.
template <DkvWgmmaConfig kConfig, class Features>
struct BackwardDqParts {
  using Shared = BackwardShared<kConfig>;
  using Part = Fragments<1, 8>;
  static constexpr int kFragmentBytes = 128 * 4;
  static constexpr int kPartBytes = 8 * kFragmentBytes;
  static constexpr int kSlabs = kConfig.padded_head_dim() / 64;
  static constexpr int kParts = kConfig.block_q / 64 * kSlabs;  // of a tile
  static constexpr int kBuffers = kConfig.num_sums();
  static constexpr int kGroups = ceil_div(kConfig.head_dim, 8);  // of the columns

  const DkvWgmmaParams& params;
  BackwardWalk<kConfig, Features> walk;  // for where the block stands
  Shared shared;
  const int warp = ptx::warp_index() & 3;
  const int lane = ptx::lane_index();
  uint32 num_parts = 0;  // that have got a buffer

  ATTNJIT_DEVICE BackwardDqParts(const DkvWgmmaParams& p, const Features& f)
      : params(p), walk(p.base, f) {}

  // Groups of columns that a part has.
  ATTNJIT_DEVICE static constexpr int groups_of(int part) {
    const int groups = kGroups - 8 * (part % kSlabs);
    return groups < 8 ? groups : 8;
  }
  // The first of the warp's queries.
  ATTNJIT_DEVICE int first_row(const BackwardJob& job, int part) const {
    return job.tile * kConfig.block_q + 64 * (part / kSlabs) + 16 * warp;
  }
  // Whether they have sums: a tile may reach into those of the next packed sequence.
  ATTNJIT_DEVICE bool has_sums(const BackwardJob& job, int part) const {
    return !Features::kPacksSequences || kConfig.block_q == kRowBlock ||
           first_row(job, part) < walk.block.padded_rows;
  }
  // The warp's sums of a part. A thread block that owns a kv head has sums for its query
  // heads.
  ATTNJIT_DEVICE float* sums_of(const BackwardJob& job, int part) const {
    constexpr int kFloats = 8 * kGroups;  // of a row
    const int64 own_plane =
        static_cast<int64>(ptx::block_index()) * kConfig.gqa_ratio + job.head - walk.first_head;
    const int64 origin = kConfig.owns_kv_head ? own_plane * params.base.padded_rows
                                              : walk.padded_rows_of(job.head).first;
    return params.base.dq_sum + (origin + first_row(job, part)) * kFloats + part % kSlabs * 8 * 128;
  }

  ATTNJIT_DEVICE uint32 buffer_of(uint32 index) const {
    return shared.sums(index % kBuffers) + warp * kPartBytes;
  }
  // The next buffer, once its last part has been read.
  ATTNJIT_DEVICE uint32 acquire_buffer() {
    const uint32 buffer = buffer_of(num_parts++);
    ptx::tensor_store_wait_read<kBuffers - 1>();
    ptx::warp_sync();  // lane 0 has waited
    return buffer;
  }
  ATTNJIT_DEVICE void put(uint32 buffer, const Part& part) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      ptx::store_shared_16(buffer + n * kFragmentBytes + 4 * ptx::fragment_slot(lane, 0),
                           {ptx::as_bits(part[0][n][0]), ptx::as_bits(part[0][n][1]),
                            ptx::as_bits(part[0][n][2]), ptx::as_bits(part[0][n][3])});
    }
  }
  // Starts to add what the warp has put in a buffer, or to store it, as a group of its own.
  ATTNJIT_DEVICE void add_to(float* sums, uint32 buffer, int bytes, bool stores = false) const {
    ptx::fence_async_proxy();
    ptx::warp_sync();  // the part is complete
    if constexpr (kConfig.walks_all()) ptx::bulk_store_if(lane == 0 && stores, sums, buffer, bytes);
    ptx::bulk_add_if(lane == 0 && !stores, sums, buffer, bytes);
    ptx::tensor_store_commit();
  }
};

}  // namespace attnjit::kernel
