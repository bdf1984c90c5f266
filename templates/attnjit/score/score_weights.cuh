#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/ptx/permute.cuh"
#include "attnjit/score/block.cuh"
#include "attnjit/tile/fragments.cuh"

// Weights are P as dS takes it, element by element. P is at hand as dv has it, rounded, in pairs;
// but dS = P (dP - delta) is rounded too, and its error would be 1.2 times as large with a rounded
// P (bench/accuracy.py).
namespace attnjit::kernel {

// Element `e` of a group, of its two pairs.
template <DType kDType>
ATTNJIT_DEVICE float element_of(const uint32 (&pairs)[2], int e) {
  return ptx::widen<kDType>(static_cast<uint16>(pairs[e / 2] >> (16 * (e & 1))));
}

// The 16 bits of element `e` of a group, of its two pairs, and below them the signed byte `e` of
// `residuals`. `zero`: see Residuals::restore().
ATTNJIT_DEVICE uint32 residual_digits(const uint32 (&pairs)[2], uint32 residuals, int e,
                                      uint32 zero) {
  // A signed byte b in the place of the second is b + 128 there, less 128. The first byte, which
  // does not matter, is one that 0 has as 0.
  const uint32 raised = residuals ^ (zero ^ 0x80808080);
  const uint32 digits = (e % 2 == 0 ? 0x1000 : 0x3202) | (4 + e) << 4;
  return ptx::permute_bytes(pairs[e / 2], raised, digits) - 0x8000;
}

// Bits of four probabilities that rounding to 16 bits drops, 8 of each. restore() gives the
// probabilities times kFactor.
template <DType kDType>
struct Residuals;

// The difference of a float and its nearest bf16, in units of 2^8 float ulps, is the second byte of
// the float, taken as signed. (Between two bf16 that are equally near the sign may be wrong; one
// float of 65536 is.)
template <>
struct Residuals<DType::kBFloat16> {
  static constexpr float kFactor = 1;
  uint32 word;

  ATTNJIT_DEVICE static Residuals of(const float (&p)[4]) {
    const auto second_bytes = [](float a, float b) {
      return ptx::permute_bytes(ptx::as_bits(a), ptx::as_bits(b), 0x51);
    };
    return {ptx::permute_bytes(second_bytes(p[0], p[1]), second_bytes(p[2], p[3]), 0x5410)};
  }
  // Probability `e`, whose bf16 are in `pairs`; 0 stays 0. `zero` is 0; where the compiler does not
  // know that, nothing is restored before `zero` is there.
  ATTNJIT_DEVICE float restore(const uint32 (&pairs)[2], int e, uint32 zero) const {
    return ptx::as_float(residual_digits(pairs, word, e, zero));
  }
};

// The same of fp16. Divided by 2^112 a float has the exponent that fp16 has for it, subnormals
// included: the fp16 is its bits from bit 13 on, and the byte is that of bits 5 to 12.
template <>
struct Residuals<DType::kFloat16> {
  static constexpr float kFactor = 0x1p-112f;
  uint32 word;

  ATTNJIT_DEVICE static Residuals of(const float (&p)[4]) {
    const auto bytes = [](float a, float b) {
      return ptx::permute_bytes(shrink(a), shrink(b), 0x5410) >> 5;
    };
    return {ptx::permute_bytes(bytes(p[0], p[1]), bytes(p[2], p[3]), 0x6420)};
  }
  ATTNJIT_DEVICE float restore(const uint32 (&pairs)[2], int e, uint32 zero) const {
    return ptx::as_float(residual_digits(pairs, word, e, zero) >> 3);
  }

 private:
  // The bits of p / 2^112, less 16 of the smallest float: 2^-25, half of the smallest fp16, is
  // rounded to 0 and must not get a negative byte.
  ATTNJIT_DEVICE static uint32 shrink(float p) {
    return ptx::as_bits(fmaf(p, kFactor, -0x1p-145f));
  }
};

// The weights of scores that features add to at most: P, where there are registers for it in fp32.
template <int kGroups>
struct FloatWeights {
  static constexpr float kFactor = 1;  // of() is the weight times this
  float element[kGroups][4];

  template <class Features, class Scores>
  ATTNJIT_DEVICE float transform(Features&, const Block&, Scores&, float scale, int) {
    return scale;
  }
  // Takes the probabilities of group n.
  ATTNJIT_DEVICE void set(int n, const float (&p)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) element[n][e] = p[e];
  }
  // The weight of element e of group n, whose probabilities, rounded, are `pairs`. `zero`: as in
  // Residuals::restore().
  ATTNJIT_DEVICE float of(const uint32 (&)[2], int n, int e, uint32) const { return element[n][e]; }
};

// The same in fewer registers: P as it is rounded, with bits that it lost.
template <DType kDType, int kGroups>
struct ResidualWeights {
  static constexpr float kFactor = Residuals<kDType>::kFactor;
  Residuals<kDType> residuals[kGroups];

  template <class Features, class Scores>
  ATTNJIT_DEVICE float transform(Features&, const Block&, Scores&, float scale, int) {
    return scale;
  }
  ATTNJIT_DEVICE void set(int n, const float (&p)[4]) { residuals[n] = Residuals<kDType>::of(p); }
  // The weights of group n in 16 bits each, for another warpgroup.
  ATTNJIT_DEVICE auto& rounded(const uint32 (&pairs)[2], int) const { return pairs; }
  ATTNJIT_DEVICE float of(const uint32 (&pairs)[2], int n, int e, uint32 zero) const {
    return residuals[n].restore(pairs, e, zero);
  }
};

// The same of scores that features change by more than an addition: P times the derivatives of the
// scores by the scaled product. Rounded in pairs, for twice the registers are not there.
template <DType kDType, int kGroups>
struct SlopeWeights {
  static constexpr float kFactor = 1;
  uint32 word[kGroups][2];  // slopes, until set() makes them weights

  // Multiplies the scores by `scale` and transforms them. Returns the scale that they still lack.
  template <class Features>
  ATTNJIT_DEVICE float transform(Features& features, const Block& block,
                                 Fragments<1, kGroups>& scores, float scale, int first_key) {
    Fragments<1, kGroups> slopes;
    const float left = features.differentiate(block, scores, slopes, scale, first_key);
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      const float(&group)[4] = slopes[0][n];
#pragma unroll
      for (int h = 0; h < 2; ++h) word[n][h] = ptx::pack<kDType>(group[2 * h], group[2 * h + 1]);
    }
    return left;
  }
  ATTNJIT_DEVICE float slope(int n, int e) const { return element_of<kDType>(word[n], e); }
  ATTNJIT_DEVICE void set(int n, const float (&p)[4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      word[n][h] =
          ptx::pack<kDType>(p[2 * h] * slope(n, 2 * h), p[2 * h + 1] * slope(n, 2 * h + 1));
    }
  }
  ATTNJIT_DEVICE auto& rounded(const uint32 (&)[2], int n) const { return word[n]; }
  ATTNJIT_DEVICE float of(const uint32 (&)[2], int n, int e, uint32) const { return slope(n, e); }
};

// kFloats: whether there are registers for P in fp32.
template <class Features, DType kDType, int kGroups, bool kFloats>
using ScoreWeights =
    TypeIf<Features::kTransforms, SlopeWeights<kDType, kGroups>,
           TypeIf<kFloats, FloatWeights<kGroups>, ResidualWeights<kDType, kGroups>>>;

}  // namespace attnjit::kernel
