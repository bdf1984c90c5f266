#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/shared_tile.cuh"

namespace attnjit::kernel {

// Visits the 16-byte chunks of a tile by the threads of a block: neighbours take neighbouring
// chunks of a row, so global accesses are coalesced. visit(row, chunk) for each chunk. kUnroll, at
// most eight, is for visits of one instruction: the addresses of more visits take registers that
// wide heads do not have.
template <int kRows, int kChunks, int kThreads, bool kUnroll, class Visit>
ATTNJIT_DEVICE void for_each_chunk(Visit visit) {
  constexpr int kRowsPerPass = kThreads / kChunks;
  constexpr int kPasses = (kRows + kRowsPerPass - 1) / kRowsPerPass;
  constexpr int kUnrolled = !kUnroll ? 1 : kPasses <= 8 ? kPasses : 8;
  const int thread = ptx::thread_index();
  const int row = thread / kChunks;
  const int chunk = thread % kChunks;
  if (kThreads % kChunks != 0 && row >= kRowsPerPass) return;
#pragma unroll kUnrolled
  for (int first = 0; first < kRows; first += kRowsPerPass) {
    if (kRows % kRowsPerPass == 0 || first + row < kRows) visit(first + row, chunk);
  }
}

// Eight elements of a row from `column` on, read one by one; zero from `columns` on.
ATTNJIT_DEVICE ptx::Vector16 load_elements(const uint16* row, int column, int columns) {
  ptx::Vector16 v = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (column + i < columns) {
      v.word[i / 2] |= static_cast<uint32>(ptx::load_global(row + column + i)) << (16 * (i & 1));
    }
  }
  return v;
}

// Starts loading a chunk of a row at `address`, of which kColumns are valid; zeros unless `valid`.
template <bool kAligned, int kColumns, int kRows, int kPadded>
ATTNJIT_DEVICE void load_chunk(const SharedTile<kRows, kPadded>& tile, int row, int chunk,
                               const uint16* address, bool valid) {
  if constexpr (kAligned) {
    ptx::copy_async_16(tile.address(row, chunk), address + chunk * 8, valid);
  } else {
    ptx::store_shared_16(tile.address(row, chunk),
                         load_elements(address, chunk * 8, valid ? kColumns : 0));
  }
}

// Rows of a tile that are kColumns wide which one pass of the threads covers.
template <int kThreads, int kColumns>
constexpr int kRowsOfPass = kThreads / (kColumns / 8);

// Starts loading kCount rows of `tile`, from `first` on, from the rows of 16-bit elements at
// source(row), of which kColumns are valid. Rows for which keep(row) is false, and columns from
// kColumns on, become zero and are not read. The caller commits, waits and synchronises.
template <bool kAligned, int kColumns, int kThreads, int kCount, int kRows, int kPadded,
          class Source, class Keep>
ATTNJIT_DEVICE void load_rows(const SharedTile<kRows, kPadded>& tile, int first, Source source,
                              Keep keep) {
  for_each_chunk<kCount, kPadded / 8, kThreads, kAligned>([&](int row, int chunk) {
    const bool valid = chunk * 8 < kColumns && keep(first + row);
    load_chunk<kAligned, kColumns>(tile, first + row, chunk, source(first + row), valid);
  });
}

// The same of all rows.
template <bool kAligned, int kColumns, int kThreads, int kRows, int kPadded, class Source,
          class Keep>
ATTNJIT_DEVICE void load_tile(const SharedTile<kRows, kPadded>& tile, Source source, Keep keep) {
  load_rows<kAligned, kColumns, kThreads, kRows>(tile, 0, source, keep);
}

// Writes the first `rows` rows and kColumns columns of `tile` to target(row).
template <bool kAligned, int kColumns, int kThreads, int kRows, int kPadded, class Target>
ATTNJIT_DEVICE void store_tile(const SharedTile<kRows, kPadded>& tile, Target target, int rows) {
  for_each_chunk<kRows, kPadded / 8, kThreads, kAligned>([&](int row, int chunk) {
    if (row >= rows || chunk * 8 >= kColumns) return;
    const ptx::Vector16 v = ptx::load_shared_16(tile.address(row, chunk));
    uint16* address = target(row) + chunk * 8;
    if constexpr (kAligned) {
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(address), v);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (chunk * 8 + i < kColumns) {
          ptx::store_global(address + i, static_cast<uint16>(v.word[i / 2] >> (16 * (i & 1))));
        }
      }
    }
  });
}

}  // namespace attnjit::kernel
