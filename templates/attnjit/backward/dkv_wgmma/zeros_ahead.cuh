#pragma once
#include "attnjit/backward/dkv_wgmma/shared.cuh"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel {

// Whether there are sums of dq to be set to zero. Packed sequences leave numbers of work tiles
// over, which no thread block would count.
template <DkvWgmmaConfig kConfig, class Features>
ATTNJIT_CONSTEXPR bool zeroes_ahead() {
  return !kConfig.walks_all() && !Features::kPacksSequences;
}

// The warp of the Hopper backward that sets sums of dq to zero while others multiply, for what a
// kernel before it would take for that is a tenth of a backward of 512 queries.
//
// The work tiles of a section of planes, see find_plane_part(), share out the sums of a section to
// come, which lie one after another, and count themselves when they are done. That section's work
// tiles wait for the count: the work tiles that they wait for have lower numbers, and are at work.
// Sums of the first sections are zeros already.
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
  ATTNJIT_DEVICE void await(const PlanePart& at) const {
    const uint32 section = at.plane / base.section_planes;
    if (params.zeros_ahead == 0 || section < params.zeros_ahead) return;
    ptx::await_count(params.zeroed + section, work_tiles());
    ptx::fence_async_proxy_global();
  }

 private:
  // Of a section that has others behind it.
  ATTNJIT_DEVICE uint32 work_tiles() const {
    return base.section_planes * base.num_kv_tiles * base.num_splits;
  }
  // Sets the share of a work tile to zero.
  ATTNJIT_DEVICE void set(const PlanePart& at) const {
    const uint32 most = base.section_planes;
    const uint32 section = at.plane / most + params.zeros_ahead;
    const uint32 begin = section * most, planes = base.num_planes;
    if (begin >= planes) return;
    const uint32 count = begin + most < planes ? most : planes - begin;
    const uint32 plane_lines = kConfig.gqa_ratio * base.padded_rows / 16 * kRowFloats / 8;
    const uint32 lines = count * plane_lines;
    const uint32 share = ceil_div(lines, work_tiles());
    const uint32 first = (at.part * most + at.plane % most) * share;
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
