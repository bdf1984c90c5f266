#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"

namespace attnjit::kernel {

// A bias over queries and keys that stays in registers, in fp32 and log2 units, while a warpgroup
// walks over planes which share it. Each element is read from global memory once, whatever its
// alignment.
//
// Infinity becomes the largest number: the difference of two of them would be NaN.
template <class Inner>
struct RegisterBias : Inner {
  static constexpr ScoreShape kScores = Inner::kBiasScores;

  Fragments<kScores.row_tiles, kScores.groups> held;

  ATTNJIT_DEVICE explicit RegisterBias(const Inner& inner) : Inner(inner) {}

  ATTNJIT_DEVICE void begin(const Block&) {}
  ATTNJIT_DEVICE void hold_tile(const Block& block, int first_key) {
    Inner::begin(block);
    this->bias.read(*this, block, first_key);
    for_each_score<kScores>(held, [&](float& element, int line, int key) {
      const float number = Inner::added(0.0f, 0.0f, line, key) * kLog2E;
      element = number > ptx::largest() ? ptx::largest() : number;
    });
  }
  template <class Use>
  ATTNJIT_DEVICE void fetch(const Block&, int, Use) {}
  ATTNJIT_DEVICE void begin_add(const Block&, int) {}
  template <class S>
  ATTNJIT_DEVICE void add(const Block&, S& scores, float scale, int) {
    scores.for_each(
        [&](float& score, int m, int n, int e) { score = fmaf(score, scale, held[m][n][e]); });
  }
};

template <class F>
struct RegisterBiasOf {
  using Type = F;
};
template <class F>
requires requires { F::kBiasScores; }
struct RegisterBiasOf<F> {
  using Type = RegisterBias<F>;
};
// The policy of a feature in a kernel that keeps a bias in registers.
template <class F>
using RegisterBiasOrPlain = typename RegisterBiasOf<F>::Type;

}  // namespace attnjit::kernel
