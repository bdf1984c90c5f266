#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The offset of the lane's first four keys of row half `h` in a fragment of 16 rows by 32 keys; the
// other four follow 128 floats later. The lane holds keys 8 (lane % 4) ... of rows lane / 4 and +
// 8.
ATTNJIT_DEVICE int bias_fragment_slot(int h) { return 256 * h + 4 * ptx::lane_index(); }

// Writes the first `keys` of eight neighbouring keys of a row, rounded to kDType, to element
// `first` of `data` and on. `kVectorized`: eight of them are contiguous and aligned to 16 bytes.
template <DType kDType, bool kVectorized>
ATTNJIT_DEVICE void store_keys(void* data, int64 first, const float (&v)[8], int keys,
                               int64 key_stride) {
  if constexpr (kDType == DType::kFloat32) {
    float* const target = static_cast<float*>(data) + first;
    if (kVectorized && keys >= 8) {
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        ptx::store_global(reinterpret_cast<ptx::Vector16*>(target + i),
                          ptx::Vector16{ptx::as_bits(v[i]), ptx::as_bits(v[i + 1]),
                                        ptx::as_bits(v[i + 2]), ptx::as_bits(v[i + 3])});
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < keys) ptx::store_global(target + i * key_stride, v[i]);
    }
  } else {
    uint16* const target = static_cast<uint16*>(data) + first;
    ptx::Vector16 packed;
#pragma unroll
    for (int i = 0; i < 4; ++i) packed.word[i] = ptx::pack<kDType>(v[2 * i], v[2 * i + 1]);
    if (kVectorized && keys >= 8) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(target), packed);
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < keys) {
        ptx::store_global(target + i * key_stride,
                          static_cast<uint16>(packed.word[i / 2] >> (16 * (i & 1))));
      }
    }
  }
}

}  // namespace attnjit::kernel
