#include "tuner/config_zero.hpp"

#include <algorithm>

#include "codegen/render.hpp"

namespace attnjit::tuner {
namespace {

struct Tile {
  int block_q, block_kv, num_stages, num_warps, min_blocks;
};

// Measured on an H200 (driver 580, 2026-11-21, bf16, 16384 tokens, L = 2048 and 8192), TFLOP/s; FA2
// of torch 2.11 on the same card in brackets. Which problems have the registers for which tile is
// what compiling them showed, on every architecture; the grid test holds it to that.
//
// Up to 64 columns, two row tiles per warp read each key fragment once for both:
// dense 294, 307 [298, 306], causal 257, 290 [261, 293].
constexpr Tile kNarrow{128, 64, 2, 4, 2};
// A bias or a mask needs registers that a second row tile would take: dense 268, 277.
constexpr Tile kNarrowOperand{64, 64, 2, 4, 2};
// Up to 128 columns: dense 321 to 326, 336 [351, 350], causal 270 to 275, 300 [281, 314], with a
// full bias 258.
constexpr Tile kMiddle{128, 32, 2, 4, 2};
// With a random mask 233.
constexpr Tile kMiddleOperand{64, 64, 1, 4, 2};
// Beyond: dense 309, 310 [317, 325], causal 262, 286 [266, 290].
constexpr Tile kWide{64, 64, 1, 4, 2};
// Also for a mask and a bias together beyond 64 columns.
constexpr Tile kWideOperand{64, 32, 1, 4, 2};

const Tile& tile(const problem::PlanKey& key) {
  using problem::Extent;
  const problem::Family& f = key.family;
  const int width = std::max(f.head_dim, f.head_dim_v);
  const bool keyed_mask = f.mask == Extent::kPerKey || f.mask == Extent::kPerPair;
  const bool keyed_bias = f.bias == Extent::kPerKey || f.bias == Extent::kPerPair;
  const bool bare = f.aligned && !keyed_mask && !keyed_bias;
  const bool light_bias = f.bias_vectorized && f.bias_dtype != DType::kFloat32;
  const bool roomy = bare || (f.aligned && !keyed_mask && light_bias && !f.bounded_left);
  // Few rows: a larger tile would only be padding.
  const bool few_rows = key.bucket_q <= 64;
  if (width <= 64) return bare && !few_rows ? kNarrow : kNarrowOperand;
  if (width <= 128 && !(keyed_mask && keyed_bias)) {
    return roomy && !few_rows ? kMiddle : kMiddleOperand;
  }
  return bare ? kWide : kWideOperand;
}

}  // namespace

kernel::ForwardConfig config_zero(const problem::PlanKey& key, const codegen::Arch&) {
  const Tile& chosen = tile(key);
  kernel::ForwardConfig config = codegen::specialise(key.family);
  config.block_q = chosen.block_q;
  config.block_kv = chosen.block_kv;
  config.num_stages = chosen.num_stages;
  config.num_warps = chosen.num_warps;
  config.min_blocks = chosen.min_blocks;
  return config;
}

kernel::MaskPackConfig mask_pack_config(const problem::Family& family,
                                        const kernel::ForwardConfig& config) {
  return {.per_pair = family.mask == problem::Extent::kPerPair,
          .vectorized = family.mask_vectorized,
          .block_q = config.block_q,
          .block_kv = config.block_kv,
          .num_warps = 4};
}

}  // namespace attnjit::tuner
