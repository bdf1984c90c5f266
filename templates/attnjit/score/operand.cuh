#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/score_shape.h"

// Loads of a tensor over (query, key) to the registers of the threads that hold its scores.
namespace attnjit::kernel {

// The thread's elements: neighbouring keys of every span (tile/key_order.h) in each of its rows, or
// in the row that all share, straight from global memory. kVectorized: they are aligned and
// contiguous; kOwnRows: each row has its own elements.
template <ScoreShape kShape, int kElementBytes, bool kVectorized, bool kOwnRows>
struct OperandRegisters {
  static_assert(kShape.queries_in_rows(), "neighbouring keys lie in a row");
  static constexpr int kLines = kOwnRows ? kShape.lines() : 1;
  static constexpr int kSpan = kShape.span(), kKeys = kShape.neighbours();
  static constexpr int kSpans = kShape.keys() / kSpan;
  static constexpr int kWords = kKeys * kElementBytes / 4;  // 32-bit words of a span's elements

  // The beginning of the thread's keys of one of its rows.
  struct Row {
    const uint8* keys;
  };

  uint32 word[kLines][kSpans][kWords];

  // Reads the keys from `first_key` on of a source whose row_address(block, row) is where a row's
  // elements begin and whose params have the stride of the keys.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
      const uint8* row = source.row_address(block, block.thread_row + ScoreShape(kShape).row(line));
      const int key = first_key + block.thread_key, keys = block.operand_keys;
#pragma unroll
      for (int s = 0; s < kSpans; ++s) {
        if constexpr (kVectorized) {
          read_vector_if(key + kSpan * s + kKeys <= keys, word[line][s],
                         row + static_cast<int64>(key + kSpan * s) * kElementBytes);
        } else {
          read_elements(word[line][s], row, key + kSpan * s, source.params, keys);
        }
      }
      if constexpr (kVectorized) read_cut_span(word[line], row, key, source.params, keys);
    }
  }
  // The same where all keys of the tile lie inside of the tensor.
  ATTNJIT_DEVICE void read_whole(const Row (&rows)[kLines], int first_key) {
    static_assert(kVectorized);
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
      const uint8* row = rows[line].keys + static_cast<int64>(first_key) * kElementBytes;
#pragma unroll
      for (int s = 0; s < kSpans; ++s) read_vector(word[line][s], row + kSpan * s * kElementBytes);
    }
  }
  // The bits of an element of fewer than 32, and of one of 32.
  ATTNJIT_DEVICE uint32 bits(int line, int key) const {
    constexpr int kPerWord = 4 / kElementBytes;
    const int i = key % kSpan;
    return word[kOwnRows ? line : 0][key / kSpan][i / kPerWord] >>
           (8 * kElementBytes * (i % kPerWord));
  }

 private:
  // The end of the tensor cuts one span at most, whose elements are read one by one.
  template <class Params>
  ATTNJIT_DEVICE static void read_cut_span(uint32 (&spans)[kSpans][kWords], const uint8* row,
                                           int key, const Params& params, int seqlen_kv) {
    const int cut = (seqlen_kv - key) / kSpan, inside = (seqlen_kv - key) % kSpan;
    if (inside <= 0 || inside >= kKeys) return;
    uint32 span[kWords];
    read_elements(span, row, key + kSpan * cut, params, seqlen_kv);
#pragma unroll
    for (int s = 0; s < kSpans; ++s) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) spans[s][i] = s == cut ? span[i] : spans[s][i];
    }
  }
  // The keys of a span from `key` on of one row; those past the tensor are not read.
  template <class Params>
  ATTNJIT_DEVICE static void read_elements(uint32 (&span)[kWords], const uint8* row, int key,
                                           const Params& params, int seqlen_kv) {
    const int64 step = params.key_stride * kElementBytes;
    const uint8* address = row + key * step;
#pragma unroll
    for (int i = 0; i < kWords; ++i) span[i] = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i, address += step) {
      if (key + i >= seqlen_kv) continue;
      constexpr int kPerWord = 4 / kElementBytes;
      span[i / kPerWord] |= read_element(address) << (8 * kElementBytes * (i % kPerWord));
    }
  }
  // Zeros, without a read, if not `inside`.
  ATTNJIT_DEVICE static void read_vector_if(bool inside, uint32 (&span)[kWords],
                                            const uint8* address) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) span[i] = 0;
    if (inside) read_vector(span, address);
  }
  ATTNJIT_DEVICE static void read_vector(uint32 (&span)[kWords], const uint8* address) {
    if constexpr (kWords == 2) {
      const uint64 pair = ptx::load_global(reinterpret_cast<const uint64*>(address));
      span[0] = static_cast<uint32>(pair);
      span[1] = static_cast<uint32>(pair >> 32);
      return;
    }
    const auto* source = reinterpret_cast<const ptx::Vector16*>(address);
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      // Steps of such kernels begin with the read, and barriers and products follow.
      const ptx::Vector16 v =
          kShape.strided_keys ? ptx::load_global_now(source + i) : ptx::load_global(source + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) span[4 * i + j] = v.word[j];
    }
  }
  ATTNJIT_DEVICE static uint32 read_element(const uint8* address) {
    if constexpr (kElementBytes == 4) {
      return ptx::load_global(reinterpret_cast<const uint32*>(address));
    } else {
      return ptx::load_global(reinterpret_cast<const uint16*>(address));
    }
  }
};

// Elements that are a byte each, of the row that all queries share, from a source whose
// row_address(block, row) is where the row begins.
template <ScoreShape kShape, bool kVectorized>
struct ByteRegisters {
  static_assert(kShape.queries_in_rows());
  static constexpr int kSpans = kShape.keys() / 32;

  uint64 bytes[kSpans];

  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const uint8* row = source.row_address(block, 0);
#pragma unroll
    for (int s = 0; s < kSpans; ++s) {
      bytes[s] =
          eight_keys(row, first_key + 32 * s + block.thread_key, source.params, block.operand_keys);
    }
  }
  ATTNJIT_DEVICE bool is_zero(int, int key) const {
    return (bytes[key >> 5] >> (8 * (key & 31)) & 0xff) == 0;
  }

 private:
  // The eight keys from `key` on of one row; those past the tensor are 0.
  template <class Params>
  ATTNJIT_DEVICE static uint64 eight_keys(const uint8* row, int key, const Params& params,
                                          int seqlen_kv) {
    if (kVectorized && key + 8 <= seqlen_kv) {
      return ptx::load_global(reinterpret_cast<const uint64*>(row + key));
    }
    uint64 result = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (key + i >= seqlen_kv) continue;
      result |= static_cast<uint64>(ptx::load_global(row + (key + i) * params.key_stride))
                << (8 * i);
    }
    return result;
  }
};

}  // namespace attnjit::kernel
