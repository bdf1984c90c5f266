#pragma once
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/permute.cuh"
#include "attnjit/score/block.cuh"
#include "attnjit/score/packed_mask_params.h"
#include "attnjit/score/score_shape.h"

// Ways of the bits of a packed mask to the registers of the threads that hold its scores. They are
// read from a source whose `bytes` are those of the plane at hand, and whose params have the words
// of a row.
namespace attnjit::kernel {

// Of a plane whose bits lie by rows, for scores with queries in rows: byte i of a row holds keys 8
// i to 8 i + 7.
template <ScoreShape kShape, Extent kExtent>
struct RowBits {
  static_assert(kShape.queries_in_rows());
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr int kRows = kPerPair ? kShape.lines() : 1;
  static constexpr int kSpans = kShape.keys() / 32;
  // Whether the words of a tile of keys always lie inside of their row.
  static constexpr bool kInside = 32 * kPackedWords % kShape.block_kv == 0;
  // The thread's eight keys of each span: a word a span, or as keep() wants them, close together.
  static constexpr bool kClose = kShape.strided_keys > 0;
  static constexpr int kBits = kShape.neighbours();

  uint32 word[kRows][kClose ? ceil_div(kSpans, 4) : kSpans];

  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
    const int byte = (first_key + block.thread_key) / 8;
    // From the tile's first key on.
    const int num_words = source.params.words_per_row - first_key / 32;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = block.thread_row + ScoreShape(kShape).row(r);
      // Rows past the tensor repeat its last one; their results are never stored.
      const int num_rows = block.operand_queries * kShape.packed_heads;
      const int last = row < num_rows ? row : num_rows - 1;
      const int64 query = kPerPair ? last / kShape.packed_heads : 0;
      const uint8* words = source.bytes + query * source.params.words_per_row * 4;
      if constexpr (kClose) {
        gather(word[r], words + first_key / 8, block.thread_key, num_words);
      } else {
#pragma unroll
        for (int s = 0; s < kSpans; ++s) {
          word[r][s] = inside(s, num_words) ? ptx::load_global(words + byte + 4 * s) : 0;
        }
      }
    }
  }
  ATTNJIT_DEVICE bool is_zero(int line, int key) const {
    const int r = kPerPair ? line : 0;
    if constexpr (kClose) {
      constexpr int kPerWord = 32 / kBits;
      const int span = key / kShape.span();
      const int bit = kBits * (span % kPerWord) + key % kShape.span();
      return (word[r][span / kPerWord] >> bit & 1) == 0;
    }
    return (word[r][key >> 5] >> (key & 31) & 1) == 0;
  }

 private:
  // Whether word `index` of a tile is one of the `num_words` that the row has left.
  ATTNJIT_DEVICE static bool inside(int index, int num_words) {
    return kInside || index < num_words;
  }
  // Of each of a row's words of a tile, the bits that are the thread's, from `key` on; byte s of
  // the result is that of word s.
  template <int kWords>
  ATTNJIT_DEVICE static void gather(uint32 (&kept)[kWords], const uint8* words, int key,
                                    int num_words) {
    // The byte of two words.
    const uint32 pick = kBits == 8 ? static_cast<uint32>(key / 8) * 0x11 + 0x40 : 0x40;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      ptx::Vector16 v{};
      if constexpr (kSpans % 4 == 0) {
        if (inside(4 * i, num_words)) {
          v = ptx::load_global_written(reinterpret_cast<const ptx::Vector16*>(words) + i);
        }
      } else {
#pragma unroll
        for (int s = 4 * i; s < kSpans; ++s) {
          if (!inside(s, num_words)) continue;
          v.word[s - 4 * i] = ptx::load_global_written(reinterpret_cast<const uint32*>(words) + s);
        }
      }
      if constexpr (kBits == 4) {
#pragma unroll
        for (int s = 0; s < 4; ++s) v.word[s] = two_spans(v.word[s] >> key);
      }
      kept[i] = ptx::permute_bytes(ptx::permute_bytes(v.word[0], v.word[1], pick),
                                   ptx::permute_bytes(v.word[2], v.word[3], pick), 0x5410);
    }
  }
  // The lowest four bits of either half of a word, as a byte.
  ATTNJIT_DEVICE static uint32 two_spans(uint32 word) { return (word & 0xf) | (word >> 12 & 0xf0); }
};

// For scores with keys in rows, of a plane that all queries share, or whose bits lie by keys: the
// source has PreparedMaskParams too then, as `prepared`.
template <ScoreShape kShape, Extent kExtent>
struct KeyBits {
  static_assert(!kShape.queries_in_rows());
  static constexpr bool kPerPair = kExtent == Extent::kPerPair;
  static constexpr int kKeys = 2 * kShape.row_tiles;  // 8 apart
  static constexpr int kWords = kPerPair ? kShape.block_q / 32 : 1;

  uint32 word[kKeys][kWords];  // bit 0 is that of the thread's first query

  // Keys past the tensor repeat its last one; they are dropped.
  template <class Source>
  ATTNJIT_DEVICE void read(const Source& source, const Block& block, int first_key) {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const int key = first_key + block.thread_key + 8 * i;
      const int last = key < block.operand_keys ? key : block.operand_keys - 1;
      if constexpr (kPerPair) {
        const int words = source.prepared.words_per_key, first_word = block.first_query / 32;
        const auto* const of_key = reinterpret_cast<const uint32*>(source.bytes) +
                                   static_cast<int64>(last) * words + first_word;
        read_queries(word[i], of_key, words - first_word, block.thread_row & 31);
      } else {
        word[i][0] = ptx::load_global(source.bytes + last / 8) >> (last & 7);
      }
    }
  }
  ATTNJIT_DEVICE bool is_zero(int line, int key) const {
    const int query = kPerPair ? ScoreShape(kShape).row(line) : 0;
    return (word[key / 8][query >> 5] >> (query & 31) & 1) == 0;
  }

 private:
  // Words come in pairs, 64 queries; those past the last are of no query.
  ATTNJIT_DEVICE static void read_queries(uint32 (&word)[kWords], const uint32* source,
                                          int num_words, int shift) {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      uint64 pair = 0;
      if (i == 0 || i < num_words) {
        pair = ptx::load_global(reinterpret_cast<const uint64*>(source + i));
      }
      word[i] = static_cast<uint32>(pair) >> shift;
      word[i + 1] = static_cast<uint32>(pair >> 32) >> shift;
    }
  }
};

}  // namespace attnjit::kernel
