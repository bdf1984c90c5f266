#pragma once
#include "attnjit/prepass/clear_count.cuh"
#include "attnjit/prepass/gather_keys_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/split_row.cuh"

// Copies the rows of k and v that the key indices of a call name, one after another, so that
// attention over them reads dense tensors. Writes each key's number beside them, or -1 where an
// index names no key in use: its rows become 0. Sets the counter to 0 from which thread blocks of
// the next kernel take their work.
//
//   indices             [batch][head][selected key], any strides
//   k, v                [batch][head][key][head dim]
//   k_copy, v_copy      [batch][head][selected key][head dim, up to whole 16 bytes]
//   selected            [batch][head][selected key]
//
// A warp copies kRows neighbouring rows of both.
namespace attnjit::kernel {

template <GatherKeysConfig kConfig>
struct GatherKeys {
  static constexpr int kRows = kConfig.kRows;
  using KeyRow = SplitRow<kConfig.head_dim, kConfig.head_dim_v, kConfig.aligned>;

  const GatherKeysParams& params;

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    clear_count(params.work_taken);
    write_key_numbers();
    const int64 rows = int64{params.num_batches} * params.num_heads * params.num_selected;
    const int64 first = (int64{ptx::block_index()} * kConfig.num_warps + ptx::warp_index()) * kRows;
    int64 keys[kRows];
    // The indices of all rows are under way together.
#pragma unroll
    for (int r = 0; r < kRows; ++r) keys[r] = first + r < rows ? key_of(first + r) : -1;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r < rows) copy(first + r, keys[r]);
    }
  }

 private:
  struct Place {
    int batch, head, selected;
  };
  ATTNJIT_DEVICE Place place_of(int64 row) const {
    const int64 plane = row / params.num_selected;
    return {static_cast<int>(plane / params.num_heads), static_cast<int>(plane % params.num_heads),
            static_cast<int>(row - plane * params.num_selected)};
  }

  ATTNJIT_DEVICE int keys_in_use(int batch) const {
    if (params.seqlens_kv == nullptr) return params.num_keys;
    const int given = ptx::load_global(params.seqlens_kv + batch);
    return given < 0 ? 0 : given < params.num_keys ? given : params.num_keys;
  }

  ATTNJIT_DEVICE void write_key_numbers() const {
    const int64 batch = int64{ptx::block_index()} * kConfig.num_threads() + ptx::thread_index();
    if (batch < params.num_batches) {
      ptx::store_global(params.key_numbers + batch, keys_in_use(static_cast<int>(batch)));
    }
  }

  ATTNJIT_DEVICE int64 index_at(int64 element) const {
    if constexpr (kConfig.index_bytes == 8) {
      return ptx::load_global(static_cast<const int64*>(params.indices) + element);
    } else {
      return ptx::load_global(static_cast<const int32*>(params.indices) + element);
    }
  }

  // The key of a row, or -1.
  ATTNJIT_DEVICE int64 key_of(int64 row) const {
    const Place place = place_of(row);
    const int64 key =
        index_at(place.batch * params.index_strides[0] + place.head * params.index_strides[1] +
                 place.selected * params.index_strides[2]);
    return key >= 0 && key < keys_in_use(place.batch) ? key : -1;
  }

  ATTNJIT_DEVICE void copy(int64 row, int64 key) const {
    if (ptx::lane_index() == 0) ptx::store_global(params.selected + row, static_cast<int32>(key));
    const Place place = place_of(row);
    const uint16* const k = row_in(params.k, params.k_strides, place, key);
    const uint16* const v = row_in(params.v, params.v_strides, place, key);
    uint16* const to_k = static_cast<uint16*>(params.k_copy) + row * KeyRow::kFirstRow;
    uint16* const to_v = static_cast<uint16*>(params.v_copy) + row * KeyRow::kSecondRow;
    KeyRow::for_each_part([&](bool second, int column) {
      const uint16* const from = (second ? v : k) + column;
      uint16* const to = (second ? to_v : to_k) + column;
      typename KeyRow::Part part{};
      if (key >= 0) part = KeyRow::load(from);
      KeyRow::store(to, part);
    });
  }

  ATTNJIT_DEVICE static const uint16* row_in(const void* tensor, const RowStrides& strides,
                                             const Place& place, int64 key) {
    return static_cast<const uint16*>(tensor) + place.batch * strides.batch +
           place.head * strides.head + key * strides.row;
  }
};

template <GatherKeysConfig kConfig>
ATTNJIT_DEVICE void gather_keys(const GatherKeysParams& params) {
  GatherKeys<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
