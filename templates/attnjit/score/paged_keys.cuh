#pragma once
#include "attnjit/forward_params.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/paged_keys_params.h"
#include "attnjit/tile/gather.cuh"
#include "attnjit/tile/key_order.h"
#include "attnjit/tile/strided_keys.cuh"

namespace attnjit::kernel {

// Paged keys, as a policy of addresses: K and V are pools of pages of kSize keys, and a table says
// which page holds the keys of a batch element from j kSize on. The loops count keys as if they
// lay one after another; where a tile begins, or a row of one that several pages hold, is asked
// here. Entries of pages without a key that the block of rows may see are not looked at.
template <int kSize>
struct PagedKeys : Feature {
  static constexpr int kPageSize = kSize;

  const PagedKeysParams& params;
  const int32* pages;  // of the batch element

  ATTNJIT_DEVICE explicit PagedKeys(const PagedKeysParams& p) : params(p), pages(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    pages = params.pages + block.batch * params.stride;
  }

  // Address of a key in a pool whose first page has the head at `head`.
  ATTNJIT_DEVICE const uint16* key_address(const uint16* head, const RowStrides& strides,
                                           int key) const {
    return address(head, strides, key, page_of(key));
  }
  // Loads a tile whose keys, from `first` on, lie in several pages; keep(row) tells the rows that
  // are read.
  template <bool kAligned, int kColumns, int kThreads, class Tile, class Keep>
  ATTNJIT_DEVICE void gather_keys(const Tile& tile, const uint16* head, const RowStrides& strides,
                                  int first, Keep keep) const {
    gather_tile<kAligned, kColumns, kThreads>(
        tile, [&](int row) { return page_of(first + row); },
        [&](int row, int page) { return address(head, strides, first + row, page); }, keep);
  }
  // The place of a tile of kKeys keys for the copy engine, page by page. A page without any of
  // `keys` lies outside of the pool, where the engine reads zeros.
  template <int kKeys>
  ATTNJIT_DEVICE auto tile_source(int first_key, int head, const KeyRange& keys) const {
    constexpr int kPiece = keys_of_piece(kSize, kKeys);
    KeySource<kKeys / kPiece> source{row_of(first_key), head, {}};
#pragma unroll
    for (int i = 0; i < kKeys / kPiece; ++i) {
      const int first = first_key + i * kPiece;
      const bool seen = first < keys.end && first + kPiece > keys.begin;
      source.batch[i] = seen ? page_of(first) : -1;
    }
    return source;
  }

 private:
  ATTNJIT_DEVICE static const uint16* address(const uint16* head, const RowStrides& strides,
                                              int key, int64 page) {
    return head + page * strides.batch + row_of(key) * strides.row;
  }
  ATTNJIT_DEVICE int page_of(int key) const {
    return ptx::load_global(pages + static_cast<uint32>(key) / kSize);
  }
  ATTNJIT_DEVICE static int row_of(int key) {
    return static_cast<int>(static_cast<uint32>(key) % kSize);
  }
};

}  // namespace attnjit::kernel
