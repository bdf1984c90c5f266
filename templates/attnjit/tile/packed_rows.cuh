#pragma once
#include "attnjit/packed_rows.h"
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"

namespace attnjit::kernel {

// The first row of a sequence. The caller's numbers are clamped to the tensor, and the first counts
// as 0. Sequence num_sequences has the rows that belong to no sequence.
ATTNJIT_DEVICE int begin_of(const PackedRows& rows, int sequence) {
  if (sequence == 0) return 0;
  if (sequence > rows.num_sequences) return rows.num_rows;
  const int begin = ptx::load_global(rows.begins + sequence);
  return begin < 0 ? 0 : begin < rows.num_rows ? begin : rows.num_rows;
}

struct PackedRange {
  int begin, size;
};
ATTNJIT_DEVICE PackedRange range_of(const PackedRows& rows, int sequence) {
  const int begin = begin_of(rows, sequence), end = begin_of(rows, sequence + 1);
  return {begin, end > begin ? end - begin : 0};
}

// The tile of number `tile`, where tiles have `size` rows, kHeads of each query. Each lane tests a
// 32nd of the sequences, then a 32nd of the rest, so that latencies overlap.
template <int kHeads = 1>
ATTNJIT_DEVICE PackedTile find_tile(const PackedRows& rows, int tile, int size) {
  const auto first_tile = [&](int sequence) {
    return first_packed_tile(begin_of(rows, sequence) * kHeads, sequence, size);
  };
  const int lane = ptx::lane_index();
  int sequence = 0, count = rows.num_sequences + 1;
  while (count > 1) {
    const int step = (count + 31) / 32, mine = lane * step;
    const bool begun = mine < count && first_tile(sequence + mine) <= tile;
    const int passed = ptx::count_bits(ptx::warp_ballot(begun));
    const int skipped = passed > 0 ? (passed - 1) * step : 0;
    sequence += skipped;
    count = count - skipped < step ? count - skipped : step;
  }
  // With invalid numbers no sequence may have begun.
  const int within = tile - first_tile(sequence);
  return {sequence, within > 0 ? within : 0};
}

}  // namespace attnjit::kernel
