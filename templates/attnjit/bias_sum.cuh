#pragma once
#include "attnjit/bias_sum_config.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

// The last step to dbias: sums fp32 parts over the axes that are still to be reduced, in a fixed
// order, and rounds. Parts are dS that were added up already (no axis left), their column sums, or
// dlse, which is what the rows of dS sum to.
namespace attnjit::kernel {

template <BiasSumConfig kConfig>
struct BiasSum {
  const BiasSumParams& params;

  // Where element `index` begins in the parts and lies in dbias.
  struct Place {
    int64 part, target;
  };
  ATTNJIT_DEVICE Place place(int64 index) const {
    Place p = {0, 0};
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      const BiasSumAxis& axis = params.axis[i];
      const int64 at = index % axis.size;
      index /= axis.size;
      p.part += at * axis.parts * axis.part_stride;
      p.target += at * axis.target_stride;
    }
    return p;
  }
  ATTNJIT_DEVICE int64 num_parts() const {
    int64 parts = 1;
#pragma unroll
    for (int i = 0; i < 4; ++i) parts *= params.axis[i].parts;
    return parts;
  }
  // Sums parts `first`, `first + step` ... of the element that begins at `part`.
  ATTNJIT_DEVICE float sum(int64 part, int64 first, int64 step) const {
    const int64 parts = num_parts();
    float total = 0.0f;
    for (int64 n = first; n < parts; n += step) {
      int64 rest = n, offset = part;
#pragma unroll
      for (int i = 3; i >= 0; --i) {
        offset += rest % params.axis[i].parts * params.axis[i].part_stride;
        rest /= params.axis[i].parts;
      }
      total += ptx::load_global_written(params.parts + offset);
    }
    return total;
  }
  ATTNJIT_DEVICE void store(int64 target, float value) const {
    if constexpr (kConfig.dtype == DType::kFloat32) {
      ptx::store_global(static_cast<float*>(params.target) + target, value);
    } else {
      ptx::store_global(static_cast<uint16*>(params.target) + target,
                        static_cast<uint16>(ptx::pack<kConfig.dtype>(value, 0.0f)));
    }
  }

  ATTNJIT_DEVICE void run() const {
    const int thread = ptx::thread_index();
    if constexpr (!kConfig.by_elements) {
      const int64 index = static_cast<int64>(ptx::block_index()) * kConfig.num_threads() + thread;
      if (index >= params.elements) return;
      const Place p = place(index);
      store(p.target, sum(p.part, 0, 1));
    } else {
      const Place p = place(ptx::block_index());
      const uint32 slots = ptx::shared_base();
      ptx::store_shared_4(slots + 4 * thread,
                          ptx::as_bits(sum(p.part, thread, kConfig.num_threads())));
      ptx::block_sync();  // the threads' sums are there
      if (thread != 0) return;
      float total = 0.0f;
      for (int i = 0; i < kConfig.num_threads(); ++i) {
        total += ptx::as_float(ptx::load_shared_4(slots + 4 * i));
      }
      store(p.target, total);
    }
  }
};

template <BiasSumConfig kConfig>
ATTNJIT_DEVICE void bias_sum(const BiasSumParams& params) {
  BiasSum<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
