#pragma once
#include "attnjit/forward/params.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/paged_keys_params.h"
#include "attnjit/tile/copy.cuh"
#include "attnjit/tile/gather.cuh"
#include "attnjit/tile/key_order.h"
#include "attnjit/tile/shared_tile.cuh"
#include "attnjit/tile/strided_keys.cuh"
#include "attnjit/tile/tile_pages.cuh"

namespace attnjit::kernel {

// Paged keys, as a policy of addresses: K and V are pools of pages of kSize keys, and a table says
// which page holds the keys of a batch element from j kSize on. The loops count keys as if they
// were contiguous; this policy gives the addresses of a tile. Entries of pages without a key that
// the block of rows may see are not read.
template <int kSize>
struct PagedKeys : Feature {
  static constexpr int kPageSize = kSize;
  static constexpr bool kHasPools = true;

  const PagedKeysParams& params;
  const int32* pages;  // of the batch element

  ATTNJIT_DEVICE explicit PagedKeys(const PagedKeysParams& p) : params(p), pages(nullptr) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    pages = params.pages + block.batch * params.stride;
  }

  // Looks up the pages of the tile of kKeys keys that begins at `first_key`; a page without any of
  // `keys` is -1. All lanes of a warp call it.
  template <int kKeys>
  ATTNJIT_DEVICE TilePages<kKeys, kSize> find_pages(int first_key, const KeyRange& keys) const {
    using Pages = TilePages<kKeys, kSize>;
    const int first = index_of(first_key);
    const int end = keys.end > 0 ? index_of(keys.end - 1) + 1 : 0;
    Pages found;
#pragma unroll
    for (int i = 0; i < Pages::kWords; ++i) {
      const int index = Pages::index(i, ptx::lane_index()), page = first + index;
      const bool seen = index < Pages::kCount && page >= index_of(keys.begin) && page < end;
      found.word[i] = seen ? static_cast<uint32>(ptx::load_global(pages + page)) : ~0u;
    }
    return found;
  }
  // Starts loading the tile of the pool whose first page has the head at `head`; keep(row) tells
  // the rows that are read. Page by page where one has enough rows for all threads, and otherwise
  // row by row.
  template <bool kAligned, int kColumns, int kThreads, int kKeys, int kPadded, class Keep>
  ATTNJIT_DEVICE void load_keys(const SharedTile<kKeys, kPadded>& tile,
                                const TilePages<kKeys, kSize>& found, int first_key,
                                const uint16* head, const RowStrides& strides, Keep keep) const {
    constexpr int kPageKeys = keys_of_page(kSize, kKeys);
    constexpr int kPass = kRowsOfPass<kThreads, kPadded>;
    if constexpr (kSize % kPageKeys == 0 && kKeys % kPageKeys == 0 && kPageKeys >= kPass) {
      constexpr int kUnrolled = 8 * kPass >= kPageKeys ? 8 * kPass / kPageKeys : 1;
#pragma unroll kUnrolled
      for (int first = 0; first < kKeys; first += kPageKeys) {
        const auto source = [row_stride = strides.row, first,
                             source = address(head, strides, first_key + first,
                                              found.at(first / kPageKeys))](int row) {
          return source + (row - first) * row_stride;
        };
        load_rows<kAligned, kColumns, kThreads, kPageKeys>(tile, first, source, keep);
      }
    } else {
      gather_tile<kAligned, kColumns, kThreads>(
          tile, [&](int row) { return found.at(index_of(first_key + row) - index_of(first_key)); },
          [&](int row, int page) { return address(head, strides, first_key + row, page); },
          [&](int row, int) { return keep(row); });
    }
  }
  // Address of a key of `page`.
  ATTNJIT_DEVICE static const uint16* address(const uint16* head, const RowStrides& strides,
                                              int key, int64 page) {
    return head + page * strides.batch + row_of(key) * strides.row;
  }
  // The coordinates of that tile for the copy engine, page by page: page -1 lies outside of the
  // pool, where the engine reads zeros. All lanes of a warp call it.
  template <int kKeys>
  ATTNJIT_DEVICE static auto tile_source(const PagedTile<kKeys, kSize>& tile) {
    constexpr int kPages = kKeys / keys_of_page(kSize, kKeys);
    KeySource<kPages> source{row_of(tile.first_key), tile.head, {}};
#pragma unroll
    for (int i = 0; i < kPages; ++i) source.batch[i] = tile.pages.at(i);
    return source;
  }

 private:
  ATTNJIT_DEVICE static int index_of(int key) {
    return static_cast<int>(static_cast<uint32>(key) / kSize);
  }
  ATTNJIT_DEVICE static int row_of(int key) {
    return static_cast<int>(static_cast<uint32>(key) % kSize);
  }
};

}  // namespace attnjit::kernel
