#pragma once
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/tensor_map.h"

namespace attnjit::kernel {

// A tile of keys of one head, all of one batch element, or as many of each of kPieces pages, which
// take the place of batch elements.
template <int kPieces = 1>
struct KeySource {
  int first_key, head;
  int batch[kPieces];
};

// Starts loading kKeys keys by kColumns columns in StridedKeyOrder; one thread does. The rows of
// the tile are fours of neighbours to the map of the tensor, which has only whole fours of its
// `seqlen_kv` keys. A tile with others is loaded row of four by row of four, every fourth row at a
// time. So is one of kAnywhere that does not begin at a multiple of four, and one of several
// pieces.
template <int kColumns, int kKeys, bool kAnywhere = false, int kPieces = 1>
ATTNJIT_DEVICE void load_strided_keys(uint32 tile, const TensorMap& map, const TensorMap& tail,
                                      uint32 full, const KeySource<kPieces>& source,
                                      int seqlen_kv) {
  const int fours = seqlen_kv / 4 * 4;
  const bool whole = kPieces == 1 && (fours == seqlen_kv || source.first_key + kKeys <= fours) &&
                     (!kAnywhere || source.first_key % 4 == 0);
#pragma unroll 1
  for (int slab = 0; slab < kColumns / 64; ++slab, tile += kKeys * 128) {
    if (whole) {
      ptx::tensor_load(tile, map, full, 64 * slab, source.first_key / 4, 0, source.head,
                       source.batch[0]);
      continue;
    }
#pragma unroll 1
    for (int row = 0; row < 4; ++row) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        ptx::tensor_load(tile + (row * kKeys / 4 + i * kKeys / 4 / kPieces) * 128, tail, full,
                         64 * slab, source.first_key + row, source.head, source.batch[i]);
      }
    }
  }
}

}  // namespace attnjit::kernel
