#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "attnjit/tensor.hpp"
#include "tensor/random.hpp"

namespace attnjit::tensor {

/// The keys that a generated mask drops. A kind that needs an axis which the mask broadcasts, and
/// kTopBias without a bias of the mask's own pattern, fall back to kRandom.
enum class MaskKind {
  kRandom,     ///< each element kept with probability `density`
  kSuffix,     ///< padding: a prefix of keys kept, its length drawn per (batch, head) plane
  kScattered,  ///< padding that is no prefix: runs of keys switched off, the first key included
  kBlocks,     ///< whole 128 x 128 tiles off, among them tiles between two tiles that stay on
  kDeadRows,   ///< as kRandom, and every fifth query row drops everything
  kDeadHead,   ///< as kRandom, and one head of each batch element drops everything
  kDeadBatch,  ///< as kRandom, and the last batch element drops everything
  kAllTrue,
  kAllFalse,
  kTopBias,  ///< the share `density` of each row's keys, those with the largest bias
  kBand,     ///< the share `density` of the keys, those up to the diagonal from the bottom right
};

/// The values of a generated bias.
enum class BiasKind {
  kNormal,         ///< N(0, 1)
  kMinusInfinity,  ///< N(0, 1) with -inf on a tenth of the elements and on every fifth query row
  kLowest,         ///< the same with the dtype's lowest finite value in place of -inf
  kHugeLogit,      ///< N(0, 1) with +10000 on one key of each row
  kVeryNegative,   ///< N(-300, 1): drives lse far below -88
  kGraded,         ///< N(-16 j / Lk, 1) at key j: the last keys have probabilities below 2^-14
};

inline constexpr std::array<std::string_view, 11> kMaskKindNames = {
    "random",     "suffix",   "scattered", "blocks",   "dead-rows", "dead-head",
    "dead-batch", "all-true", "all-false", "top-bias", "band"};
inline constexpr std::array<std::string_view, 6> kBiasKindNames = {
    "normal", "minus-infinity", "lowest", "huge-logit", "very-negative", "graded"};

/// The kind of that name, if there is one.
std::optional<MaskKind> parse_mask_kind(std::string_view name);
std::optional<BiasKind> parse_bias_kind(std::string_view name);

// The fills below write every logical element once. The value depends on `random` and the logical
// index alone, not on strides; an axis of stride 0 counts as size 1.

/// Fills an fp16, bf16 or fp32 tensor with N(mean, stddev^2) rounded to its dtype.
void fill_normal(const Tensor& tensor, Random random, double mean, double stddev, unsigned jobs);

/// Fills an fp32 tensor over (batch, head, 1, 1) with the slopes of ALiBi, 2^(-8 (h + 1) / H), half
/// as large again from one batch element to the next.
void fill_slopes(const Tensor& tensor);

/// Fills a kBool tensor over (batch, head, query, key). `density` in [0, 1].
void fill_mask(const Tensor& mask, MaskKind kind, double density, Random random, unsigned jobs);

/// Fills a kBool tensor with the kTopBias of `bias`, which has its shape and broadcast axes and is
/// filled already. Of equal biases the first ones are kept.
void fill_top_bias(const Tensor& mask, const Tensor& bias, double density, unsigned jobs);

/// Fills an fp16, bf16 or fp32 tensor over (batch, head, query, key).
void fill_bias(const Tensor& bias, BiasKind kind, Random random, unsigned jobs);

/// Writes `values`, dense over the tensor's shape, rounded to its dtype; no stride may be 0.
void store_dense(const Tensor& tensor, const std::vector<double>& values);

}  // namespace attnjit::tensor
