#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/positions.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// The keys of a tile that a thread keeps, a bit each, for shapes whose threads hold eight
// neighbouring keys of each span of 32: byte s of a line's words is that of span s. Features take
// bits away, and one pass over the scores drops what is left out.
template <ScoreShape kShape>
struct KeptKeys {
  static constexpr int kSpans = kShape.keys() / 32;
  static constexpr int kWords = ceil_div(kSpans, 4);
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
    for (int s = 0; s < kSpans; ++s)
      word[line][s / 4] &= ~(low_bits(begin - 32 * s) << 8 * (s % 4));
  }
  ATTNJIT_DEVICE void before(int line, int end) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      uint32 kept = 0;
#pragma unroll
      for (int s = 4 * i; s < kSpans && s < 4 * i + 4; ++s) {
        kept |= low_bits(end - 32 * s) << 8 * (s % 4);
      }
      word[line][i] &= kept;
    }
  }

  // Sets the others' scores to -inf.
  template <class S>
  ATTNJIT_DEVICE void apply(S& scores) const {
    for_each_score<kShape>(scores, [&](float& score, int line, int key) {
      const uint32 bit = 1u << (8 * (key / 32 % 4) + key % 32);
      if ((word[line][key / 128] & bit) == 0) score = -ptx::infinity();
    });
  }

 private:
  // As many ones as `count`, of eight.
  ATTNJIT_DEVICE static uint32 low_bits(int count) {
    const int most = count < 8 ? count : 8;
    return (1u << (most > 0 ? most : 0)) - 1;
  }
};

}  // namespace attnjit::kernel
