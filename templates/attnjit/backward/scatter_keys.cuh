#pragma once
#include "attnjit/backward/scatter_keys_config.h"
#include "attnjit/ptx/count.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/split_row.cuh"

// Writes dk and dv of all keys from those of the selected ones: 0 where a key is not selected, the
// sum in fp32, in the order of the indices, where it is more than once.
//
//   dk_selected, dv_selected  [batch][head][selected key][head dim, up to whole 16 bytes]
//   selected                  [batch][head][selected key]: the key's number, or -1
//   dk, dv                    [batch][head][key][head dim]
//
// A thread block has kConfig.num_keys neighbouring keys of a kv head. It looks through all of the
// head's selected keys for them, and counts in shared memory
//
//   [key]  how often it is selected
//   [key]  the sum of the places where: the one place, if it is one
//
// so that rows are written by warps that know where to read. No sum depends on which thread came
// first.
namespace attnjit::kernel {

template <ScatterKeysConfig kConfig>
struct ScatterKeys {
  static constexpr int kKeys = kConfig.num_keys;
  using KeyRow = SplitRow<kConfig.head_dim, kConfig.head_dim_v, kConfig.aligned>;
  using Part = typename KeyRow::Part;

  const ScatterKeysParams& params;

  ATTNJIT_DEVICE void run() const {
    const int64 plane = ptx::block_index() / params.blocks_per_plane;
    const int first = static_cast<int>(ptx::block_index() % params.blocks_per_plane) * kKeys;
    for (int i = ptx::thread_index(); i < 2 * kKeys; i += kConfig.num_threads()) {
      ptx::store_shared_4(ptx::shared_base() + 4 * i, 0);
    }
    ptx::block_sync();  // no thread counts before all words are 0
    const int32* const selected = params.selected + plane * params.num_selected;
    for (int place = ptx::thread_index(); place < params.num_selected;
         place += kConfig.num_threads()) {
      const int key = ptx::load_global(selected + place) - first;
      if (key < 0 || key >= kKeys) continue;
      ptx::add_shared(count_of(key), 1);
      ptx::add_shared(places_of(key), static_cast<uint32>(place));
    }
    ptx::block_sync();  // the counts of all threads are there
    for (int key = ptx::warp_index(); key < kKeys && first + key < params.num_keys;
         key += kConfig.num_warps) {
      const uint32 count = ptx::load_shared_4(count_of(key));
      const uint32 place = ptx::load_shared_4(places_of(key));
      write(plane, first + key, count, static_cast<int>(place), selected);
    }
  }

 private:
  ATTNJIT_DEVICE static uint32 count_of(int key) { return ptx::shared_base() + 4 * key; }
  ATTNJIT_DEVICE static uint32 places_of(int key) { return count_of(kKeys + key); }

  ATTNJIT_DEVICE void write(int64 plane, int key, uint32 count, int place,
                            const int32* selected) const {
    const int64 batch = plane / params.num_heads, head = plane % params.num_heads;
    uint16* const dk = row_in(params.dk, params.dk_strides, batch, head, key);
    uint16* const dv = row_in(params.dv, params.dv_strides, batch, head, key);
    const auto* const from_k = static_cast<const uint16*>(params.dk_selected) +
                               plane * params.num_selected * KeyRow::kFirstRow;
    const auto* const from_v = static_cast<const uint16*>(params.dv_selected) +
                               plane * params.num_selected * KeyRow::kSecondRow;
    KeyRow::for_each_part([&](bool second, int column) {
      const int row = second ? KeyRow::kSecondRow : KeyRow::kFirstRow;
      const uint16* const from = (second ? from_v : from_k) + column;
      Part part{};
      if (count == 1) part = KeyRow::load(from + int64{place} * row);
      if (count > 1) part = sum_of(from, row, key, count, selected);
      KeyRow::store((second ? dv : dk) + column, part);
    });
  }

  // The sum over all places of a key, of which there are `count`.
  ATTNJIT_DEVICE static Part sum_of(const uint16* from, int row, int key, uint32 count,
                                    const int32* selected) {
    float sums[KeyRow::kColumns] = {};
    for (int place = 0; count > 0; ++place) {
      if (ptx::load_global(selected + place) != key) continue;
      --count;
      const Part part = KeyRow::load(from + int64{place} * row);
#pragma unroll
      for (int i = 0; i < KeyRow::kColumns; ++i) sums[i] += element(part, i);
    }
    return packed(sums);
  }

  ATTNJIT_DEVICE static float element(const Part& part, int i) {
    if constexpr (kConfig.aligned) {
      const uint32 pair = part.word[i / 2];
      return ptx::widen<kConfig.dtype>(static_cast<uint16>(i % 2 == 0 ? pair : pair >> 16));
    } else {
      return ptx::widen<kConfig.dtype>(part.bits);
    }
  }
  ATTNJIT_DEVICE static Part packed(const float (&sums)[KeyRow::kColumns]) {
    Part part;
    if constexpr (kConfig.aligned) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        part.word[i] = ptx::pack<kConfig.dtype>(sums[2 * i], sums[2 * i + 1]);
      }
    } else {
      part.bits = static_cast<uint16>(ptx::pack<kConfig.dtype>(sums[0], 0.0f));
    }
    return part;
  }

  ATTNJIT_DEVICE static uint16* row_in(void* tensor, const RowStrides& strides, int64 batch,
                                       int64 head, int key) {
    return static_cast<uint16*>(tensor) + batch * strides.batch + head * strides.head +
           key * strides.row;
  }
};

template <ScatterKeysConfig kConfig>
ATTNJIT_DEVICE void scatter_keys(const ScatterKeysParams& params) {
  ScatterKeys<kConfig>{params}.run();
}

}  // namespace attnjit::kernel
