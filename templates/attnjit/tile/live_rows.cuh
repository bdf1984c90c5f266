#pragma once
#include "attnjit/ptx/copy_if.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/opaque.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/copy.cuh"
#include "attnjit/tile/cursor.cuh"

namespace attnjit::kernel {

// The live rows of a tile of up to 128 queries, a bit each. Not an array: with a run-time index it
// would lie in local memory.
struct LiveRows {
  uint64 low = 0, high = 0;  // rows 0 ... 63 and 64 ... 127

  ATTNJIT_DEVICE void set(int word, uint32 bits) {
    (word < 2 ? low : high) |= static_cast<uint64>(bits) << (32 * (word & 1));
  }
  ATTNJIT_DEVICE bool any() const { return (low | high) != 0; }
  ATTNJIT_DEVICE bool has(int row) const {
    return ((row < 64 ? low : high) >> (row & 63) & 1) != 0;
  }
  // The rows that `lane` holds.
  template <int kRows>
  ATTNJIT_DEVICE LiveRows broadcast(int lane) const {
    LiveRows result;
#pragma unroll
    for (int word = 0; word < kRows / 32; ++word) {
      const uint64 half = word < 2 ? low : high;
      result.set(word, ptx::warp_broadcast(static_cast<uint32>(half >> (32 * (word & 1))), lane));
    }
    return result;
  }
};

// The same of up to 256 queries.
struct LongLiveRows {
  LiveRows first, second;

  ATTNJIT_DEVICE void set(int word, uint32 bits) {
    if (word < 4) {
      first.set(word, bits);
    } else {
      second.set(word - 4, bits);
    }
  }
  ATTNJIT_DEVICE bool has(int row) const {
    return row < 128 ? first.has(row) : second.has(row - 128);
  }
};

// Those of a tile of kRows queries.
template <int kRows>
using LiveRowsOf = TypeIf<(kRows <= 128), LiveRows, LongLiveRows>;

// Starts loading `tile` from rows of 16-bit elements, `stride` apart, of which kColumns are valid.
// Rows that are not live become zero and are not read. kFresh: addresses are computed anew each
// time. The caller commits, waits and synchronises.
template <bool kAligned, int kColumns, int kThreads, bool kFresh, int kRows, int kPadded>
ATTNJIT_DEVICE void load_live_rows(const SharedTile<kRows, kPadded>& tile, const uint16* source,
                                   int64 stride, const LiveRowsOf<kRows>& live) {
  constexpr int kChunks = kPadded / 8;
  constexpr int kStep = kThreads / kChunks;  // rows from one chunk of a thread to the next
  constexpr bool kSteady = kRows <= 128 && kAligned && kColumns == kPadded &&
                           kThreads % kChunks == 0 && kRows % kStep == 0 &&
                           (kStep & (kStep - 1)) == 0 && kStep <= 32;
  if constexpr (kSteady) {
    // Except for the step of the pointer, all differences between chunks are known at compile time.
    const int thread = kFresh ? ptx::opaque(ptx::thread_index()) : ptx::thread_index();
    const int row = thread / kChunks;
    const int chunk = thread % kChunks;
    const auto target = cursor(tile, row, chunk);
    const uint64 low = live.low >> row;
    const uint64 high = live.high >> row;
    const uint16* address = source + row * stride + chunk * 8;
    const int64 step = kStep * stride;
#pragma unroll
    for (int i = 0; i < kRows; i += kStep, address += step) {
      const bool valid = ((i < 64 ? low : high) >> (i & 63) & 1) != 0;
      ptx::copy_async_16_if(valid, target.at(i, 0), address);
    }
  } else {
    load_tile<kAligned, kColumns, kThreads>(
        tile, [=](int row) { return source + row * stride; },
        [&](int row) { return live.has(row); });
  }
}

}  // namespace attnjit::kernel
