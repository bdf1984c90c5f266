#pragma once
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/tile/key_order.h"

namespace attnjit::kernel {

// A tile of keys of one head, all of one batch element, or as many of each of kPieces pages, which
// take the place of batch elements.
template <int kPieces = 1>
struct KeySource {
  int first_key, head;
  int batch[kPieces];
};

// Starts loading kKeys keys by kColumns columns in StridedKeyOrder, piece by piece; one thread
// does. The rows of a piece are fours of neighbours to the map of the tensor, or twos, which has
// only whole fours of its `seqlen_kv` keys. A tile with others is loaded row of four by row of
// four, every fourth row at a time. Tiles of kAnywhere begin at any row of a four, so boxes have
// one row of each.
template <int kColumns, int kKeys, bool kAnywhere = false, int kPieces = 1>
ATTNJIT_DEVICE void load_strided_keys(uint32 tile, const TensorMap& map, const TensorMap& tail,
                                      uint32 full, const KeySource<kPieces>& source,
                                      int seqlen_kv) {
  static_assert(kPieces == 1 || !kAnywhere);
  constexpr int kPiece = kKeys / kPieces, kStride = StridedKeyOrder::stride(kPiece);
  const int fours = seqlen_kv / 4 * 4;
  const bool whole = kPieces > 1 || fours == seqlen_kv || source.first_key + kKeys <= fours;
#pragma unroll 1
  for (int slab = 0; slab < kColumns / 64; ++slab, tile += kKeys * 128) {
    if (whole && !kAnywhere) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        ptx::tensor_load(tile + i * kPiece * 128, map, full, 64 * slab, source.first_key / kStride,
                         0, source.head, source.batch[i]);
      }
    } else if (whole) {
      // Unrolled: what a turn computes has the latency of uniform registers, and others wait for
      // it.
#pragma unroll
      for (int row = 0; row < 4; ++row) {
        const uint32 key = source.first_key + row;
        ptx::tensor_load(tile + row * kKeys / 4 * 128, map, full, 64 * slab,
                         static_cast<int>(key / 4), static_cast<int>(key % 4), source.head,
                         source.batch[0]);
      }
    } else if constexpr (kPieces == 1) {
#pragma unroll 1
      for (int row = 0; row < 4; ++row) {
        ptx::tensor_load(tile + row * kKeys / 4 * 128, tail, full, 64 * slab,
                         source.first_key + row, source.head, source.batch[0]);
      }
    }
  }
}

}  // namespace attnjit::kernel
