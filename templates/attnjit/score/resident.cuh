#pragma once
#include "attnjit/score/feature.cuh"
#include "attnjit/score/positions.cuh"

// A bias, or what a score expression adds, that stays in registers while a thread block walks over
// planes which share it.
namespace attnjit::kernel {

// Tiles of 32 keys of a 16-bit bias that leave registers for scores. Others are read again for each
// plane.
inline constexpr int kMostResident = 4;

// A bias whose plane has kTiles tiles of keys, one after another. All of them are read when the
// thread block turns to another plane of the bias, and not again before the next one.
template <class Inner, int kTiles>
struct Resident : Inner {
  typename Inner::Registers held[kTiles];
  const uint8* held_plane = nullptr;

  ATTNJIT_DEVICE explicit Resident(const Inner& inner) : Inner(inner) {}

  template <class Use>
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, Use) {
    if (this->plane != held_plane) {
      held_plane = this->plane;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) held[i].read(*this, block, i * Inner::kBiasScores.keys());
    }
    this->bias = held[first_key / Inner::kBiasScores.keys()];
  }
  ATTNJIT_DEVICE void begin_add(const Block&, int) {}
  template <class S>
  ATTNJIT_DEVICE void add(const Block&, S& scores, float scale, int) {
    for_each_score<Inner::kBiasScores>(scores, [&](float& score, int line, int key) {
      score = Inner::added(score, scale, line, key);
    });
  }
};

// The same of an addend, in fp32.
template <class Inner, int kTiles>
struct ResidentAddend : Inner {
  static constexpr ScoreShape kShape = Inner::kAddendScores;
  using Scores = Fragments<kShape.row_tiles, kShape.groups>;

  Scores held[kTiles];
  int held_head = -1;

  ATTNJIT_DEVICE explicit ResidentAddend(const Inner& inner) : Inner(inner) {}

  template <class Use>
  ATTNJIT_DEVICE void fetch(const Block& block, int, Use) {
    if (block.head == held_head) return;
    held_head = block.head;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      held[i] = 0.0f;
      Inner::add(block, held[i], 0.0f, i * ScoreShape(kShape).keys());
    }
  }
  template <class S>
  ATTNJIT_DEVICE void add(const Block&, S& scores, float scale, int first_key) {
    const Scores& addend = held[first_key / ScoreShape(kShape).keys()];
    scores.for_each(
        [&](float& score, int m, int n, int e) { score = fmaf(score, scale, addend[m][n][e]); });
  }
};

template <class F, int kTiles>
struct ResidentIf {
  using Type = F;
};
template <class F, int kTiles>
requires(F::kHasRegisters&& kTiles * sizeof(typename F::Registers) <=
         32 * kMostResident) struct ResidentIf<F, kTiles> {
  using Type = Resident<F, kTiles>;
};
// As many registers as a bias may take.
template <class F, int kTiles>
requires(F::kIsShared&& kTiles* F::kAddendScores.groups <=
         2 * kMostResident) struct ResidentIf<F, kTiles> {
  using Type = ResidentAddend<F, kTiles>;
};

// The policy of a feature in a kernel that walks over planes.
template <class F, int kTiles>
using ResidentOrPlain = typename ResidentIf<F, kTiles>::Type;

}  // namespace attnjit::kernel
