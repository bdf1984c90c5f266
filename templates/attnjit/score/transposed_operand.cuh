#pragma once
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/score/operand.cuh"
#include "attnjit/tensor_map.h"

// Loads of a tensor over (query, key) to the registers of threads whose scores have keys in rows.
namespace attnjit::kernel {

template <int kElementBytes>
ATTNJIT_DEVICE uint32 load_element(const uint8* address) {
  if constexpr (kElementBytes == 4) {
    return ptx::load_global(reinterpret_cast<const uint32*>(address));
  } else if constexpr (kElementBytes == 2) {
    return ptx::load_global(reinterpret_cast<const uint16*>(address));
  } else {
    return ptx::load_global(address);
  }
}

// The elements of the thread's keys, where all queries share them: one by one from global memory.
template <ScoreShape kShape, int kElementBytes>
struct KeyRegisters {
  static_assert(!kShape.queries_in_rows());
  static constexpr int kLines = 1;
  static constexpr int kKeys = 2 * kShape.row_tiles;  // 8 apart

  struct Row {};

  uint32 word[kKeys];

  // Reads from a source as OperandRegisters::read() does, or one of bytes; keys past the tensor are
  // 0.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const uint8* keys = source.row_address(block, 0);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const int key = first_key + block.thread_key + 8 * i;
      const uint8* address = keys + key * source.params.key_stride * kElementBytes;
      word[i] = key < block.operand_keys ? load_element<kElementBytes>(address) : 0;
    }
  }
  ATTNJIT_DEVICE uint32 bits(int, int key) const { return word[key / 8]; }
  ATTNJIT_DEVICE bool is_zero(int line, int key) const { return bits(line, key) == 0; }
};

// The elements of each of the thread's keys and queries: one by one from global memory, whatever
// their type and strides.
template <ScoreShape kShape, int kElementBytes>
struct TransposedRegisters {
  static_assert(!kShape.queries_in_rows() && kShape.row_tiles == 1);
  static constexpr int kLines = 1;

  struct Row {};

  uint32 word[kShape.lines()][2];  // of keys 8 apart

  // Reads from a source as OperandRegisters::read() does. Elements past the tensor repeat its last
  // ones: their scores are dropped.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = lower(first_key + block.thread_key + 8 * h, block.operand_keys - 1);
      const uint8* const column =
          source.row_address(block, 0) + key * source.params.key_stride * kElementBytes;
#pragma unroll
      for (int line = 0; line < kShape.lines(); ++line) {
        const int row =
            lower(block.thread_row + ScoreShape(kShape).row(line), block.operand_queries - 1);
        word[line][h] =
            load_element<kElementBytes>(column + row * source.params.query_stride * kElementBytes);
      }
    }
  }
  ATTNJIT_DEVICE uint32 bits(int line, int key) const { return word[line][key / 8]; }

 private:
  ATTNJIT_DEVICE static int lower(int a, int b) { return a < b ? a : b; }
};

// The elements of 16 bits of each of the thread's keys and queries, from a tile that the copy
// engine has brought as [slab of 64 keys][query][64 keys], swizzled by 128 bytes. ldmatrix
// transposes them into the order of the scores.
template <ScoreShape kShape>
struct TransposedTileRegisters {
  static_assert(!kShape.queries_in_rows() && kShape.row_tiles == 1);
  static constexpr int kLines = 1;

  struct Row {};

  uint32 word[kShape.groups][2];  // of 8 queries and, 8 apart, of a key: two queries each

  ATTNJIT_DEVICE void read(uint32 tile, const Block& block) {
    const int lane = ptx::lane_index();
    const int key = block.thread_key - lane / 4;  // the warp's first
    const int chunk = key % 64 / 8 + (lane >> 3 & 1);
    const uint32 line = tile + key / 64 * kShape.block_q * 128 +
                        ((lane & 7) + 8 * (lane >> 4)) * 128 + ((chunk ^ (lane & 7)) << 4);
#pragma unroll
    for (int n = 0; n < kShape.groups; n += 2) {
      ptx::load_matrices_transposed(reinterpret_cast<uint32(&)[4]>(word[n]), line + n * 8 * 128);
    }
  }
  ATTNJIT_DEVICE uint32 bits(int line, int key) const {
    return word[line / 2][key / 8] >> (16 * (line & 1));
  }
};

}  // namespace attnjit::kernel
