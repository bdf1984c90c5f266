#pragma once
#include "attnjit/forward/params.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/selected_keys_params.h"
#include "attnjit/score/seqlens.cuh"
#include "attnjit/tile/gather.cuh"
#include "attnjit/tile/shared_tile.cuh"
#include "attnjit/tile/tile_pages.cuh"

namespace attnjit::kernel {

// Selected keys where they lie, as a policy of addresses: an index tells which row of k and v a key
// of the call has, as a page of one key would. An index that names no key in use is dropped, and
// its rows are zero-filled.
template <ScoreShape kShape, int kIndexBytes>
struct SelectedKeys : Feature {
  static constexpr int kPageSize = 1;
  static constexpr bool kPerHead = true;

  const SelectedKeysParams& params;
  int64 first;   // element of the kv head's first index
  int keys_end;  // of the keys in use

  ATTNJIT_DEVICE explicit SelectedKeys(const SelectedKeysParams& p)
      : params(p), first(0), keys_end(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    first = block.batch * params.batch_stride + block.head / kShape.gqa_ratio * params.head_stride;
    keys_end = Seqlens::clamped(params.seqlens_kv, block.batch, params.num_keys);
  }

  template <int kKeys>
  ATTNJIT_DEVICE TilePages<kKeys, 1> find_pages(int first_key, const KeyRange& keys) const {
    using Pages = TilePages<kKeys, 1>;
    Pages found;
#pragma unroll
    for (int i = 0; i < Pages::kWords; ++i) {
      const int index = Pages::index(i, ptx::lane_index()), key = first_key + index;
      const bool seen = index < Pages::kCount && key >= keys.begin && key < keys.end;
      found.word[i] = seen ? static_cast<uint32>(row_of(key)) : ~0u;
    }
    return found;
  }

  // Starts loading the tile, row by row, from the tensor whose first key of the head is at `head`;
  // keep(row) tells the rows that are read.
  template <bool kAligned, int kColumns, int kThreads, int kKeys, int kPadded, class Keep>
  ATTNJIT_DEVICE void load_keys(const SharedTile<kKeys, kPadded>& tile,
                                const TilePages<kKeys, 1>& found, int, const uint16* head,
                                const RowStrides& strides, Keep keep) const {
    gather_tile<kAligned, kColumns, kThreads>(
        tile, [&](int row) { return found.at(row); },
        [&](int, int64 key) { return head + key * strides.row; },
        [&](int row, int key) { return key >= 0 && keep(row); });
  }

  ATTNJIT_DEVICE TileUse use(const Block&, int) { return TileUse::kMasked; }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    for_each_score<kShape>(scores, [&](float& score, int, int distance) {
      const int key = first_key + block.thread_key + distance;
      if (key < block.kv_len && row_of(key) < 0) score = -ptx::infinity();
    });
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block&, K&, int) {
    static_assert(sizeof(K) == 0, "no feature beside selected keys has dropped keys as bits");
  }

 private:
  // The row of k and v that is key `key` of the call, or -1.
  ATTNJIT_DEVICE int row_of(int key) const {
    const int64 element = first + key * params.key_stride;
    if constexpr (kIndexBytes == 8) {
      const int64 row = ptx::load_global(static_cast<const int64*>(params.indices) + element);
      return row >= 0 && row < keys_end ? static_cast<int>(row) : -1;
    } else {
      const int32 row = ptx::load_global(static_cast<const int32*>(params.indices) + element);
      return row >= 0 && row < keys_end ? row : -1;
    }
  }
};

}  // namespace attnjit::kernel
