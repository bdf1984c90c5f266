#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"

// A bias that stays in shared memory while a thread block walks over planes which share it.
namespace attnjit::kernel {

// Bytes of a warp's 512 elements of a row tile.
inline constexpr int kHeldTileBytes = 2048;

// Tiles of a bias lie in shared memory in fp32, as fragments of their scores: each is read from
// global memory once, whatever its alignment, and each thread finds what it has put there itself.
//
// NaN and infinity become the largest number there: where a key with one counts, lse and delta are
// NaN, and where the row is dead, lse takes any number to -inf.
template <class Inner>
struct HeldBias : Inner {
  static constexpr ScoreShape kScores = Inner::kBiasScores;
  static_assert(kScores.groups == 4);

  ATTNJIT_DEVICE explicit HeldBias(const Inner& inner) : Inner(inner) {}

  // The thread's elements of row tile `m` and column group `n` of the tile at hand.
  ATTNJIT_DEVICE uint32 address(int m, int n) const {
    return this->shared_tile + m * kHeldTileBytes + 16 * (32 * n + ptx::lane_index());
  }
  ATTNJIT_DEVICE void hold_tile(const Block& block, int first_key) {
    this->bias.read(*this, block, first_key);
    Fragments<kScores.row_tiles, 4> elements;
    for_each_score<kScores>(elements, [&](float& element, int line, int key) {
      const float number = Inner::added(0.0f, 0.0f, line, key);
      element = number < ptx::largest() ? number : ptx::largest();
    });
#pragma unroll
    for (int m = 0; m < kScores.row_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float(&group)[4] = elements[m][n];
        ptx::store_shared_16(address(m, n), {ptx::as_bits(group[0]), ptx::as_bits(group[1]),
                                             ptx::as_bits(group[2]), ptx::as_bits(group[3])});
      }
    }
  }
  template <class Use>
  ATTNJIT_DEVICE void fetch(const Block&, int, Use) {}
  ATTNJIT_DEVICE void begin_add(const Block&, int) {}
  template <int kRowTiles>
  ATTNJIT_DEVICE void add(const Block&, Fragments<kRowTiles, 4>& scores, float scale, int) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const ptx::Vector16 elements = ptx::load_shared_16(address(m, n));
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& score = scores[m][n][e];
          score = fmaf(score, scale, ptx::as_float(elements.word[e]));
        }
      }
    }
  }
};

template <class F>
struct HeldOf {
  using Type = F;
};
template <class F>
requires requires { F::kBiasScores; }
struct HeldOf<F> {
  using Type = HeldBias<F>;
};
// The policy of a feature in a kernel that walks over planes.
template <class F>
using HeldOrPlain = typename HeldOf<F>::Type;

}  // namespace attnjit::kernel
