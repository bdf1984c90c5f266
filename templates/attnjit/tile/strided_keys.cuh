#pragma once
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/tile/key_order.h"

namespace attnjit::kernel {

// A tile of keys of one head, all of one batch element, or as many of each of kPages pages, which
// replace the batch element.
template <int kPages = 1>
struct KeySource {
  int first_key, head;
  int batch[kPages];
};

// Starts loading kKeys keys by kColumns columns in StridedKeyOrder, in slabs of kSlabColumns, page
// by page; one thread does. The map of the tensor has rows in groups of four neighbours, or two,
// and only the whole groups of its `seqlen_kv` keys. A tile with other keys is loaded by `tail`,
// every fourth row at a time. Tiles of kAnywhere begin at any row of a group, so a box has one row
// of each group.
template <int kColumns, int kKeys, bool kAnywhere = false, int kSlabColumns = 64, int kPages = 1>
ATTNJIT_DEVICE void load_strided_keys(uint32 tile, const TensorMap& map, const TensorMap& tail,
                                      uint32 full, const KeySource<kPages>& source, int seqlen_kv) {
  static_assert(kPages == 1 || !kAnywhere);
  constexpr int kPageKeys = kKeys / kPages, kStride = StridedKeyOrder::stride(kPageKeys);
  constexpr int kLineBytes = 2 * kSlabColumns;
  const int fours = seqlen_kv / 4 * 4;
  const bool whole = kPages > 1 || fours == seqlen_kv || source.first_key + kKeys <= fours;
#pragma unroll 1
  for (int slab = 0; slab < kColumns / kSlabColumns; ++slab, tile += kKeys * kLineBytes) {
    if (whole && !kAnywhere) {
#pragma unroll
      for (int i = 0; i < kPages; ++i) {
        ptx::tensor_load(tile + i * kPageKeys * kLineBytes, map, full, kSlabColumns * slab,
                         source.first_key / kStride, 0, source.head, source.batch[i]);
      }
    } else if (whole) {
      // Unrolled: an iteration has the latency of uniform registers, and other warps wait for it.
#pragma unroll
      for (int row = 0; row < 4; ++row) {
        const uint32 key = source.first_key + row;
        ptx::tensor_load(tile + row * kKeys / 4 * kLineBytes, map, full, kSlabColumns * slab,
                         static_cast<int>(key / 4), static_cast<int>(key % 4), source.head,
                         source.batch[0]);
      }
    } else if constexpr (kPages == 1) {
#pragma unroll 1
      for (int row = 0; row < 4; ++row) {
        ptx::tensor_load(tile + row * kKeys / 4 * kLineBytes, tail, full, kSlabColumns * slab,
                         source.first_key + row, source.head, source.batch[0]);
      }
    }
  }
}

}  // namespace attnjit::kernel
