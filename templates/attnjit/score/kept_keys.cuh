#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The keys of a tile that a thread keeps, a bit each, for shapes whose threads hold neighbouring
// keys of each span: those of span s follow those of span s - 1 in a line's words. Features take
// bits away, and one pass over the scores drops what is left out.
template <ScoreShape kShape>
struct KeptKeys {
  static constexpr int kSpan = kShape.span(), kBits = kShape.neighbours();
  static constexpr int kSpans = kShape.keys() / kSpan;
  static constexpr int kPerWord = 32 / kBits;  // spans
  static constexpr int kWords = ceil_div(kSpans, kPerWord);
  uint32 word[kShape.lines()][kWords];

  ATTNJIT_DEVICE KeptKeys() {
#pragma unroll
    for (int line = 0; line < kShape.lines(); ++line) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) word[line][i] = 0xffffffffu;
    }
  }

  // Keeps the keys of `line` from `begin` on, and before `end`, both counted from the thread's
  // first key.
  ATTNJIT_DEVICE void from(int line, int begin) {
#pragma unroll
    for (int s = 0; s < kSpans; ++s) drop(line, s, low_bits(begin - kSpan * s));
  }
  ATTNJIT_DEVICE void before(int line, int end) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      uint32 kept = 0;
#pragma unroll
      for (int s = kPerWord * i; s < kSpans && s < kPerWord * (i + 1); ++s) {
        kept |= low_bits(end - kSpan * s) << kBits * (s % kPerWord);
      }
      word[line][i] &= kept;
    }
  }

  // Drops the keys of span `s` whose bits are set.
  ATTNJIT_DEVICE void drop(int line, int s, uint32 bits) {
    word[line][s / kPerWord] &= ~(bits << kBits * (s % kPerWord));
  }

  // The score of a key, -inf if it is dropped.
  ATTNJIT_DEVICE float of(float score, int line, int key) const {
    const int s = key / kSpan;
    const uint32 bit = 1u << (kBits * (s % kPerWord) + key % kSpan);
    return (word[line][s / kPerWord] & bit) == 0 ? -ptx::infinity() : score;
  }
  template <class S>
  ATTNJIT_DEVICE void apply(S& scores) const {
    for_each_score<kShape>(scores,
                           [&](float& score, int line, int key) { score = of(score, line, key); });
  }

 private:
  // As many ones as `count`, of a span's bits.
  ATTNJIT_DEVICE static uint32 low_bits(int count) {
    const int most = count < kBits ? count : kBits;
    return (1u << (most > 0 ? most : 0)) - 1;
  }
};

}  // namespace attnjit::kernel
