#pragma once
#include "attnjit/backward/dkv_wgmma/shared.cuh"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel {

// Whether this kernel zeroes sums of dq. With packed sequences some work tiles do not exist, and no
// thread block would count them.
template <DkvWgmmaConfig kConfig, class Features>
ATTNJIT_CONSTEXPR bool zeroes_ahead() {
  return !kConfig.walks_all() && !Features::kPacksSequences;
}

// The warp of the Hopper backward that zeroes sums of dq while other warps multiply: a separate
// kernel for that takes a tenth of a backward of 512 queries.
//
// Each work tile of a section of planes, see find_plane_tile(), zeroes a share of the sums of a
// later section, which are contiguous, and then increments a counter. Work tiles of that section
// wait for the counter: they wait for work tiles with lower numbers, which are running. Sums of the
// first sections are zeros already.
template <DkvWgmmaConfig kConfig>
struct BackwardZerosAhead {
  static constexpr int kRowFloats = round_up(kConfig.head_dim, 8);
  static constexpr int kLineFloats = 32 * 4;  // that a warp writes at once

  const DkvWgmmaParams& params;
  const BackwardParams& base = params.base;
  BackwardShared<kConfig> shared;

  ATTNJIT_DEVICE explicit BackwardZerosAhead(const DkvWgmmaParams& p) : params(p) {}

  ATTNJIT_DEVICE void run() const {
    if (params.zeros_ahead == 0 && !kConfig.loops_over_work()) return;
    for (uint32 number = 0;; ++number) {
      const KeyWorkTile work = shared.next_work(number);
      if (!work.exists()) return;
      if (params.zeros_ahead != 0) set(work.at);
      if (!kConfig.loops_over_work()) return;
      shared.leave_work(number);
    }
  }

  // Waits until the sums of a work tile's plane are zeros.
  ATTNJIT_DEVICE void await(const PlaneTile& at) const {
    const uint32 section = at.plane / base.section_planes;
    if (params.zeros_ahead == 0 || section < params.zeros_ahead) return;
    ptx::await_count(params.zeroed + section, work_tiles());
    ptx::fence_async_proxy_global();
  }

 private:
  // For a section that later ones follow.
  ATTNJIT_DEVICE uint32 work_tiles() const {
    return base.section_planes * base.num_kv_tiles * base.num_splits;
  }
  // Zeroes the share of a work tile.
  ATTNJIT_DEVICE void set(const PlaneTile& at) const {
    const uint32 most = base.section_planes;
    const uint32 section = at.plane / most + params.zeros_ahead;
    const uint32 begin = section * most, planes = base.num_planes;
    if (begin >= planes) return;
    const uint32 count = begin + most < planes ? most : planes - begin;
    const uint32 plane_lines = kConfig.gqa_ratio * base.padded_rows / 16 * kRowFloats / 8;
    const uint32 lines = count * plane_lines;
    const uint32 share = ceil_div(lines, work_tiles());
    const uint32 first = (at.tile * most + at.plane % most) * share;
    float* const sums =
        base.dq_sum + static_cast<int64>(begin) * plane_lines * kLineFloats + ptx::lane_index() * 4;
#pragma unroll 4
    for (uint32 line = first; line < first + share; ++line) {
      if (line >= lines) break;
      ptx::store_global(
          reinterpret_cast<ptx::Vector16*>(sums + static_cast<int64>(line) * kLineFloats),
          ptx::Vector16{});
    }
    ptx::fence_async_proxy_global();
    ptx::warp_sync();  // all lanes have written
    ptx::count_if(ptx::lane_index() == 0, params.zeroed + section);
  }
};

}  // namespace attnjit::kernel
