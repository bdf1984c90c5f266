#pragma once
#include "attnjit/backward/operand_sum_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/reduce.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/warpgroup.cuh"

// Adds up the gradients of operands from what other kernels have written (OperandGradientParams),
// in an order that depends on nothing but the sizes: results are the same bits every time.
//
// A thread block has kConfig.num_elements neighbouring elements of a gradient, and a slice of its
// lists. Its warps share the chunks of each out, skip those whose range misses these elements, and
// add the others to sums of their own in shared memory, which are added up in the end:
//
//   shared memory  [warp][element]
namespace attnjit::kernel {

template <OperandSumConfig kConfig>
struct OperandSums {
  const OperandSumParams& params;
  const int warp, lane;

  ATTNJIT_DEVICE explicit OperandSums(const OperandSumParams& p)
      : params(p), warp(ptx::warp_index()), lane(ptx::lane_index()) {}

  ATTNJIT_DEVICE void run() const {
    const int block = static_cast<int>(ptx::block_index());
    int n = 0, begin = 0;
    while (n + 1 < params.num_sums && block >= params.sums[n].end_block) {
      begin = params.sums[n++].end_block;
    }
    const OperandSum& sum = params.sums[n];
    const int ranges = (sum.end_block - begin) / sum.slices;  // of elements
    const int first = (block - begin) % ranges * kConfig.num_elements;
    const int slice = (block - begin) / ranges;
    for (int i = lane; i < kConfig.num_elements; i += 32) ptx::store_shared_4(slot(warp, i), 0);
    ptx::warp_sync();
    for (int s = 0; s < params.num_sources; ++s) {
      const OperandSumSource& source = params.sources[s];
      if (source.operand == n && source.elements != nullptr) {
        add_list(source, first, slice, sum.slices);
      }
    }
    ptx::block_sync();  // the sums of all warps are there
    write(sum, n, first, slice);
  }

 private:
  ATTNJIT_DEVICE static uint32 slot(int of_warp, int element) {
    return ptx::shared_base() + 4 * (of_warp * kConfig.num_elements + element);
  }
  ATTNJIT_DEVICE static bool is_inside(int element) {
    return element >= 0 && element < kConfig.num_elements;
  }

  // Each lane asks for the range of one chunk, so that their latencies are paid together. Warps
  // take chunks in turns.
  ATTNJIT_DEVICE void add_list(const OperandSumSource& source, int first, int slice,
                               int slices) const {
    const int end = first + kConfig.num_elements;
    const int64 share = (source.chunks + slices - 1) / slices;
    const int64 last = (slice + 1) * share;
    const int64 end_chunk = last < source.chunks ? last : source.chunks;
    constexpr int kTurn = kConfig.num_warps;
    for (int64 chunk = slice * share + warp; chunk < end_chunk; chunk += 32 * kTurn) {
      IntRange range = {1, 0};
      const int64 own = chunk + lane * kTurn;
      if (own < end_chunk) range = range_of(source.ranges + own);
      uint32 hits =
          ptx::warp_ballot(range.first < end && range.last >= first && range.first <= range.last);
      for (; hits != 0; hits &= hits - 1) {
        const int64 entry = (chunk + ptx::lowest_bit(hits) * kTurn) * kListChunk + lane;
        const int element = ptx::load_global(source.elements + entry) - first;
        add(element, sum_of_copies(source, source.chunks * kListChunk, entry));
      }
    }
  }
  // The sum of a value's copies, `stride` apart. Several loads are under way together.
  ATTNJIT_DEVICE static float sum_of_copies(const OperandSumSource& source, int64 stride,
                                            int64 index) {
    constexpr int kTogether = 16;
    const float* next = source.values + index;
    float total = 0.0f;
    for (int left = source.copies; left > 0; left -= kTogether) {
      float value[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        value[i] = i < left ? ptx::load_global_written(next) : 0.0f;
        next += stride;
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) total += value[i];
    }
    return total;
  }
  ATTNJIT_DEVICE static IntRange range_of(const IntRange* address) {
    const int64 both = ptx::load_global(reinterpret_cast<const int64*>(address));
    return {static_cast<int>(both), static_cast<int>(both >> 32)};
  }

  // Adds a lane's value each. Lanes of one element must not write at once: they take turns, or are
  // added up before where all have the same.
  ATTNJIT_DEVICE void add(int element, float value) const {
    const int first = static_cast<int>(ptx::warp_broadcast(static_cast<uint32>(element), 0));
    const bool inside = is_inside(element);
    if (ptx::warp_ballot(element != first) == 0) {
      const float total = ptx::warp_sum(value);
      if (lane == 0 && inside) add_shared(element, total);
    } else if (ptx::warp_ballot(element - lane != first) == 0) {
      // Elements that follow one another, as along diagonals, are all different.
      if (inside) add_shared(element, value);
    } else {
      const int turn = lanes_before(element);
      const int last = ptx::warp_greatest(inside ? turn : -1);
      for (int t = 0; t <= last; ++t) {
        if (inside && turn == t) add_shared(element, value);
        ptx::warp_sync();  // the next turn adds to the same sums
      }
    }
    ptx::warp_sync();  // the next chunk does
  }
  // The lanes before this one that have the same element.
  ATTNJIT_DEVICE int lanes_before(int element) const {
    int count = 0;
#pragma unroll
    for (int before = 0; before < 31; ++before) {
      const auto other = ptx::warp_broadcast(static_cast<uint32>(element), before);
      if (before < lane && static_cast<int>(other) == element) ++count;
    }
    return count;
  }
  ATTNJIT_DEVICE void add_shared(int element, float value) const {
    const uint32 address = slot(warp, element);
    const float before = ptx::as_float(ptx::load_shared_4(address));
    ptx::store_shared_4(address, ptx::as_bits(before + value));
  }

  ATTNJIT_DEVICE void write(const OperandSum& sum, int number, int first, int slice) const {
    for (int i = ptx::thread_index(); i < kConfig.num_elements; i += kConfig.num_threads()) {
      const int element = first + i;
      if (element >= sum.num_elements) break;
      float total = 0.0f;
#pragma unroll
      for (int of_warp = 0; of_warp < kConfig.num_warps; ++of_warp) {
        total += ptx::as_float(ptx::load_shared_4(slot(of_warp, i)));
      }
      for (int s = 0; s < params.num_sources; ++s) {
        const OperandSumSource& source = params.sources[s];
        if (source.operand != number || source.elements != nullptr) continue;
        total += sum_of_copies(source, sum.num_elements, element);
      }
      store(sum, place_of(sum, element) + int64{slice} * sum.num_elements, total);
    }
  }
  ATTNJIT_DEVICE static int64 place_of(const OperandSum& sum, int element) {
    int64 place = 0;
#pragma unroll
    for (int axis = 3; axis >= 0; --axis) {
      place += element % sum.sizes[axis] * sum.strides[axis];
      element /= sum.sizes[axis];
    }
    return place;
  }
  ATTNJIT_DEVICE static void store(const OperandSum& sum, int64 place, float value) {
    if (sum.dtype == DType::kFloat32) {
      ptx::store_global(static_cast<float*>(sum.target) + place, value);
      return;
    }
    const uint32 pair = sum.dtype == DType::kFloat16 ? ptx::pack<DType::kFloat16>(value, 0.0f)
                                                     : ptx::pack<DType::kBFloat16>(value, 0.0f);
    ptx::store_global(static_cast<uint16*>(sum.target) + place, static_cast<uint16>(pair));
  }
};

template <OperandSumConfig kConfig>
ATTNJIT_DEVICE void operand_sums(const OperandSumParams& params) {
  OperandSums<kConfig>(params).run();
}

}  // namespace attnjit::kernel
