#include "tuner/config_zero.hpp"

#include <algorithm>

namespace attnjit::tuner {
namespace {

struct Tile {
  int block_q, block_kv, num_stages, num_warps, min_blocks;
};

// Measured on an H200 (driver 580, 2026-11-21, bf16, 16384 tokens, L = 2048 and 8192), TFLOP/s; FA2
// of torch 2.11 in the same run in brackets (bench/results). Which problems have the registers for
// which tile is what compiling them showed, on every architecture; the grid test holds it to that.
//
// Up to 64 columns, two row tiles per warp read each key fragment once for both:
// dense 319, 342 [299, 306], causal 283, 333 [262, 296].
constexpr Tile kNarrow{128, 64, 1, 4, 2};
// A bias or a mask needs registers that a second row tile would take.
constexpr Tile kNarrowOperand{64, 64, 2, 4, 2};
// Up to 128 columns: dense 359, 377 [340, 348], causal 318, 364 [286, 320], with a full bias 286,
// with a random mask 279.
constexpr Tile kMiddle{128, 32, 2, 4, 2};
constexpr Tile kMiddleOperand{64, 64, 1, 4, 2};
// Beyond: dense 314, 329 [319, 325], causal 294, 324 [269, 288].
constexpr Tile kWide{64, 64, 1, 4, 2};
// Also for a mask and a bias together beyond 64 columns.
constexpr Tile kWideOperand{64, 32, 1, 4, 2};
// At most 16 rows: one warp, which waits for nobody, and several blocks per SM.
constexpr Tile kRow{16, 32, 3, 1, 4};
constexpr Tile kRowWide{16, 32, 2, 1, 3};

// What a family asks of a kernel's registers.
struct Load {
  int width;        // columns of the widest tensor
  bool keyed_mask;  // varies over keys, so that it is read in the main loop
  bool keyed_bias;
  bool light_bias;  // no such bias, or one of 16 bits that is read in wide loads
  bool bare;        // neither mask nor bias, and 16-byte copies
  bool roomy;       // bare, or with operands that are read in wide loads
};

Load load(const problem::Family& f) {
  using problem::Extent;
  Load l{};
  l.width = std::max(f.head_dim, f.head_dim_v);
  l.keyed_mask = problem::varies_over_keys(f.mask);
  l.keyed_bias = problem::varies_over_keys(f.bias);
  l.bare = f.aligned && !l.keyed_mask && !l.keyed_bias;
  l.light_bias = !l.keyed_bias || (f.bias_vectorized && f.bias_dtype != DType::kFloat32);
  l.roomy = l.bare || (f.aligned && l.light_bias && !f.bounded_left);
  return l;
}

// Short queries of several heads fill a tile together, and K and V are read once for all.
bool pack_heads(const problem::PlanKey& key) {
  const problem::Family& f = key.family;
  return f.gqa_ratio > 1 && key.bucket_q <= 16 && !f.mask_per_query_head &&
         (f.mask != problem::Extent::kPerPair || 64 % f.gqa_ratio == 0);
}

const Tile& tile(const Load& l, int rows) {
  if (rows <= 16 && l.width <= 128) return kRow;
  if (rows <= 16 && l.light_bias) return kRowWide;
  // A larger tile would only be padding.
  const bool few_rows = rows <= 64;
  if (l.width <= 64) return l.bare && !few_rows ? kNarrow : kNarrowOperand;
  if (l.width <= 128 && !(l.keyed_mask && l.keyed_bias)) {
    return l.roomy && !few_rows ? kMiddle : kMiddleOperand;
  }
  return l.bare ? kWide : kWideOperand;
}

}  // namespace

codegen::ForwardTunables config_zero(const problem::PlanKey& key, const codegen::Arch&) {
  codegen::ForwardTunables config;
  config.pack_heads = pack_heads(key);
  const Load needs = load(key.family);
  const Tile& chosen = tile(needs, key.bucket_q * (config.pack_heads ? key.family.gqa_ratio : 1));
  config.block_q = chosen.block_q;
  config.block_kv = chosen.block_kv;
  config.num_stages = chosen.num_stages;
  config.num_warps = chosen.num_warps;
  config.min_blocks = chosen.min_blocks;
  // The max-free policy keeps scores and probabilities at once.
  config.softmax = needs.width > 128 && !needs.bare ? kernel::SoftmaxPolicy::kRunningMax
                                                    : kernel::SoftmaxPolicy::kMaxFree;
  return config;
}

}  // namespace attnjit::tuner
