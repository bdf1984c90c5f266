#pragma once
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/shuffle.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/score/operand.cuh"
#include "attnjit/tensor_map.h"

// Ways of a tensor over (query, key) to the registers of threads whose scores have keys in rows.
namespace attnjit::kernel {

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
      word[i] = key < block.operand_keys ? read_element(address) : 0;
    }
  }
  ATTNJIT_DEVICE uint32 bits(int, int key) const { return word[key / 8]; }
  ATTNJIT_DEVICE bool is_zero(int line, int key) const { return bits(line, key) == 0; }

 private:
  ATTNJIT_DEVICE static uint32 read_element(const uint8* address) {
    if constexpr (kElementBytes == 4) {
      return ptx::load_global(reinterpret_cast<const uint32*>(address));
    } else if constexpr (kElementBytes == 2) {
      return ptx::load_global(reinterpret_cast<const uint16*>(address));
    } else {
      return ptx::load_global(address);
    }
  }
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
