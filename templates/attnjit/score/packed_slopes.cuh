#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/tile/fragments.cuh"

namespace attnjit::kernel {

// The derivatives of a warp's scores by the scaled product, where features change that by more than
// an addition: rounded in pairs, as an operand of a product has its elements, for twice the
// registers are not there.
template <DType kDType, int kGroups>
struct PackedSlopes {
  uint32 word[kGroups][2];

  // Changes scaled scores.
  template <class Features>
  ATTNJIT_DEVICE void transform(Features& features, Fragments<1, kGroups>& scores) {
    Fragments<1, kGroups> slopes;
    features.differentiate(scores, slopes);
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float(&group)[4] = slopes[0][n];
#pragma unroll
      for (int h = 0; h < 2; ++h) word[n][h] = ptx::pack<kDType>(group[2 * h], group[2 * h + 1]);
    }
  }
  ATTNJIT_DEVICE float of(int n, int e) const {
    return ptx::widen<kDType>(static_cast<uint16>(word[n][e / 2] >> (16 * (e & 1))));
  }
  // Turns a pair of slopes into weights: times their probabilities.
  ATTNJIT_DEVICE void multiply(int n, int h, float low, float high) {
    word[n][h] = ptx::pack<kDType>(low * of(n, 2 * h), high * of(n, 2 * h + 1));
  }
  // The weights by which dP becomes dS: these, in place of the probabilities.
  ATTNJIT_DEVICE auto& weights(const uint32 (&)[kGroups][2]) const { return word; }
};

// The same of scores whose derivatives are all 1.
struct NoSlopes {
  template <class Features, class Scores>
  ATTNJIT_DEVICE void transform(Features&, Scores&) {}
  ATTNJIT_DEVICE void multiply(int, int, float, float) {}
  template <class Operand>
  ATTNJIT_DEVICE auto& weights(const Operand& p) const {
    return p;
  }
};

template <class Features, DType kDType, int kGroups>
using SlopesOf = TypeIf<Features::kTransforms, PackedSlopes<kDType, kGroups>, NoSlopes>;

}  // namespace attnjit::kernel
