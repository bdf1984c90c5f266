#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The keys of a tile that a thread keeps, a bit each, for shapes whose threads hold neighbouring
// keys of each span: bits of span s follow those of span s - 1 in a line's words. Features clear
// bits, and one pass drops the scores whose bits are clear.
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
    const int dropped = bits_before(begin);
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[line][i] &= ~ones(dropped - 32 * i);
  }
  ATTNJIT_DEVICE void before(int line, int end) {
    const int kept = bits_before(end);
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[line][i] &= ones(kept - 32 * i);
  }

  // Drops the keys of span `s` whose bits are set.
  ATTNJIT_DEVICE void drop(int line, int s, uint32 bits) {
    word[line][s / kPerWord] &= ~(bits << kBits * (s % kPerWord));
  }

  // Drops a key unless `keeps`.
  ATTNJIT_DEVICE void keep_pair(int line, int key, bool keeps) {
    const int s = key / kSpan;
    const uint32 bit = 1u << (kBits * (s % kPerWord) + key % kSpan);
    word[line][s / kPerWord] &= keeps ? 0xffffffffu : ~bit;
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
  // The bits of a line that belong to keys before `key`: in whole spans, and in the span of `key`.
  ATTNJIT_DEVICE static int bits_before(int key) {
    constexpr int kEnd = kSpan * kSpans;
    const int inside = key < 0 ? 0 : key < kEnd ? key : kEnd;
    const int own = inside % kSpan;
    return inside / kSpan * kBits + (own < kBits ? own : kBits);
  }
  ATTNJIT_DEVICE static uint32 ones(int count) {
    return ptx::low_bits(kWords == 1 || count > 0 ? count : 0);
  }
};

}  // namespace attnjit::kernel
