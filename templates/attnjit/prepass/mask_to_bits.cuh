#pragma once
#include "attnjit/prepass/clear_count.cuh"
#include "attnjit/prepass/mask_to_bits_config.h"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/tile/bit_matrix.cuh"

// The mask prepass: converts a boolean mask to one bit per element, and tells of each tile of
// kMaskTile queries by kMaskTile keys whether all, some or none of its keys are kept.
//
//   mask     [batch or 1, heads, Lq or 1, Lk], one byte an element, any strides
//   words    [plane][row][words_per_row], for kernels that have queries in the rows of their scores
//   columns  [plane][q tile][key], for kernels that have keys in the rows of their scores
//   classes  [plane][q tile][kv tile]
//
// bit_mask_params.h tells the order of the bits. Keys past the mask are 0 in all of them, and so
// are queries past it in the columns.
//
// A thread block has a tile of queries and MaskToBitsConfig::kKeys keys. A thread reads 16 keys at
// a time, its neighbour the next 16 of the row; the bits go to shared memory, where a lane then
// finds the words of a row:
//
//     bytes --> bits, in shared memory --> words, by rows
//                                      --> classes and, transposed in registers, columns
namespace attnjit::kernel {

// Bit i of the result is byte i of `bytes` != 0.
ATTNJIT_DEVICE uint32 nonzero_bytes(uint32 bytes) {
  bytes |= bytes >> 4;
  bytes |= bytes >> 2;
  bytes |= bytes >> 1;
  // The low bits of four bytes, moved next to each other by one multiplication.
  return ((bytes & 0x01010101u) * 0x10204080u) >> 28;
}

template <MaskToBitsConfig kConfig>
struct MaskToBits {
  static constexpr int kRows = kConfig.rows();
  static constexpr int kThreads = kConfig.num_threads();
  static constexpr int kChunkKeys = 16;  // that a thread reads at a time
  static constexpr int kChunks = kConfig.kKeys / kChunkKeys;
  // Chunks that a thread reads.
  static constexpr int kReads = kRows * kChunks / kThreads;

  const MaskToBitsParams& params;
  int q_tile, first_word, num_words;  // of the thread block
  int64 plane;
  const uint8* mask;  // of the plane

  ATTNJIT_DEVICE explicit MaskToBits(const MaskToBitsParams& p) : params(p) {
    const uint32 index = ptx::block_index();
    const uint32 rest = index / params.num_key_blocks;
    first_word = static_cast<int>(index % params.num_key_blocks) * kConfig.kWords;
    const int words = params.words_per_row - first_word;
    num_words = words < kConfig.kWords ? words : kConfig.kWords;
    q_tile = static_cast<int>(rest % params.num_q_tiles);
    plane = rest / params.num_q_tiles;
    mask = params.mask + plane / params.num_heads * params.batch_stride +
           plane % params.num_heads * params.head_stride;
  }

  ATTNJIT_DEVICE void run() const {
    ptx::let_next_kernel_begin();
    clear_count(params.work_taken);
    convert();
    ptx::block_sync();  // the words of all rows are there
    if constexpr (kConfig.by_rows) store_words();
    const int warp = ptx::thread_index() / 32;
    for (int tile = warp; tile < num_words / 2; tile += kThreads / 32) finish_tile(tile);
  }

 private:
  // A query of the mask, by its row in the block.
  ATTNJIT_DEVICE int query_of(int row) const { return q_tile * kRows + row; }
  ATTNJIT_DEVICE bool has_row(int row) const {
    return row < kRows && query_of(row) < params.seqlen_q;
  }
  // Of a word in shared memory.
  ATTNJIT_DEVICE static uint32 address_of(int row, int word) {
    return ptx::shared_base() + row * kConfig.kRowBytes + 4 * word;
  }

  // The coordinates of a chunk in the block. A block of few keys has fewer chunks in a row, so that
  // its threads have as many rows more.
  struct Chunk {
    int row, index;
  };
  ATTNJIT_DEVICE Chunk chunk_of(int read) const {
    const int number = ptx::thread_index() + read * kThreads;
    const int shift = num_words <= 4 ? 3 : num_words <= 8 ? 4 : 5;
    return {number >> shift, number & ((1 << shift) - 1)};
  }

  ATTNJIT_DEVICE void convert() const {
    if constexpr (kConfig.vectorized) {
      // All reads are on their way before the first is waited for.
      ptx::Vector16 bytes[kReads];
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        const Chunk chunk = chunk_of(i);
        const int key = first_key_of(chunk);
        bytes[i] = {};
        if (has_row(chunk.row) && key + kChunkKeys <= params.seqlen_kv) {
          bytes[i] = ptx::load_global(reinterpret_cast<const ptx::Vector16*>(row_of(chunk) + key));
        }
      }
#pragma unroll
      for (int i = 0; i < kReads; ++i) {
        const Chunk chunk = chunk_of(i);
        uint32 bits = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) bits |= nonzero_bytes(bytes[i].word[j]) << (4 * j);
        if (first_key_of(chunk) + kChunkKeys > params.seqlen_kv) bits = read_elements(chunk);
        put(chunk, bits);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kReads; ++i) put(chunk_of(i), read_elements(chunk_of(i)));
    }
  }
  ATTNJIT_DEVICE int first_key_of(const Chunk& chunk) const {
    return 32 * first_word + kChunkKeys * chunk.index;
  }
  ATTNJIT_DEVICE const uint8* row_of(const Chunk& chunk) const {
    return mask + query_of(chunk.row) * params.query_stride;
  }
  // The bits of a chunk, read one by one; those past the mask are 0.
  ATTNJIT_DEVICE uint32 read_elements(const Chunk& chunk) const {
    uint32 bits = 0;
    if (!has_row(chunk.row)) return bits;
    const int key = first_key_of(chunk);
    const uint8* const row = row_of(chunk);
#pragma unroll
    for (int i = 0; i < kChunkKeys; ++i) {
      if (key + i < params.seqlen_kv) {
        const uint8 keep = ptx::load_global(row + (key + i) * params.key_stride);
        bits |= static_cast<uint32>(keep != 0) << i;
      }
    }
    return bits;
  }
  // Puts a chunk into its word, which two neighbours make up. Warps call it whole.
  ATTNJIT_DEVICE void put(const Chunk& chunk, uint32 bits) const {
    const uint32 of_neighbour = ptx::warp_broadcast(bits, ptx::lane_index() ^ 1);
    if (chunk.row >= kRows || chunk.index % 2 != 0) return;
    ptx::store_shared_4(address_of(chunk.row, chunk.index / 2), bits | of_neighbour << kChunkKeys);
  }

  // Writes the words by rows, a group of keys at a time.
  ATTNJIT_DEVICE void store_words() const {
    constexpr int kQuads = kConfig.kWords / kMaskGroupWords;
    for (int i = ptx::thread_index(); i < kRows * kQuads; i += kThreads) {
      const int row = i / kQuads, word = i % kQuads * kMaskGroupWords;
      if (!has_row(row) || word >= num_words) continue;
      uint32 words[kMaskGroupWords];
#pragma unroll
      for (int j = 0; j < kMaskGroupWords; ++j) {
        words[j] = ptx::load_shared_4(address_of(row, word + j));
      }
      uint32* const target = params.words +
                             (plane * params.seqlen_q + query_of(row)) * params.words_per_row +
                             first_word + word;
      ptx::store_global(reinterpret_cast<ptx::Vector16*>(target), transpose_bytes(words));
    }
  }

  // Classifies tile `tile` of the block's and writes its columns, by a warp.
  ATTNJIT_DEVICE void finish_tile(int tile) const {
    const int lane = ptx::lane_index();
    bool any = false, all = true;
    uint32 column[2][2];  // of key `lane` of each word: 32 queries each
#pragma unroll
    for (int w = 0; w < 2; ++w) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 32 * half + lane;
        const uint32 word = row < kRows ? ptx::load_shared_4(address_of(row, 2 * tile + w)) : 0u;
        any |= word != 0;
        all &= !has_row(row) || word == full_word(first_word + 2 * tile + w);
        if constexpr (kConfig.by_keys) column[w][half] = transpose_bits(word);
      }
    }
    any = ptx::warp_ballot(any) != 0;
    all = ptx::warp_all(all);
    const int64 q_tiles = plane * params.num_q_tiles + q_tile;
    const int kv_tile = first_word / 2 + tile;
    if (lane == 0) {
      const TileUse use = !any ? TileUse::kSkip : all ? TileUse::kPlain : TileUse::kMasked;
      ptx::store_global(params.classes + q_tiles * params.num_kv_tiles + kv_tile,
                        static_cast<uint8>(use));
    }
    if constexpr (kConfig.by_keys) {
      auto* const columns = reinterpret_cast<ptx::Vector8*>(
          params.columns + q_tiles * 32 * params.words_per_row + kMaskTile * kv_tile + lane);
#pragma unroll
      for (int w = 0; w < 2; ++w) ptx::store_global(columns + 32 * w, quarters_of(column[w]));
    }
  }
  // A word of a row that keeps every key.
  ATTNJIT_DEVICE uint32 full_word(int word) const {
    const int valid = params.seqlen_kv - 32 * word;
    return valid >= 32 ? 0xffffffffu : valid <= 0 ? 0u : (1u << valid) - 1;
  }
};

template <MaskToBitsConfig kConfig>
ATTNJIT_DEVICE void mask_to_bits(const MaskToBitsParams& params) {
  MaskToBits<kConfig>(params).run();
}

}  // namespace attnjit::kernel
