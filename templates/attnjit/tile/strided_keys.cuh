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
// four, every fourth row at a time. So is one of kAnywhere that does not begin at a multiple of
// four.
template <int kColumns, int kKeys, bool kAnywhere = false, int kPieces = 1>
ATTNJIT_DEVICE void load_strided_keys(uint32 tile, const TensorMap& map, const TensorMap& tail,
                                      uint32 full, const KeySource<kPieces>& source,
                                      int seqlen_kv) {
  constexpr int kPiece = kKeys / kPieces, kStride = StridedKeyOrder::stride(kPiece);
  const int fours = seqlen_kv / 4 * 4;
  const bool whole = kPieces > 1 || ((fours == seqlen_kv || source.first_key + kKeys <= fours) &&
                                     (!kAnywhere || source.first_key % 4 == 0));
#pragma unroll 1
  for (int slab = 0; slab < kColumns / 64; ++slab, tile += kKeys * 128) {
    if (whole) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        ptx::tensor_load(tile + i * kPiece * 128, map, full, 64 * slab, source.first_key / kStride,
                         0, source.head, source.batch[i]);
      }
      continue;
    }
    if constexpr (kPieces == 1) {
#pragma unroll 1
      for (int row = 0; row < 4; ++row) {
        ptx::tensor_load(tile + row * kKeys / 4 * 128, tail, full, 64 * slab,
                         source.first_key + row, source.head, source.batch[0]);
      }
    }
  }
}

}  // namespace attnjit::kernel
