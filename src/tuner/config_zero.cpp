#include "tuner/config_zero.hpp"

#include <algorithm>

#include "codegen/render.hpp"

namespace attnjit::tuner {
namespace {

struct Tile {
  int block_q, block_kv, num_stages, num_warps, min_blocks;
};

// Measured on an H200 (driver 580, 2026-11-21, bf16, 16384 tokens); FA2 of torch 2.11 in brackets.
//
// Up to 64 columns, two row tiles per warp read each key fragment once for both: 302 to 308
// TFLOP/s dense [299 to 307], 261 to 289 causal [264 to 294].
constexpr Tile kNarrow{128, 64, 2, 4, 2};
// A bias or a mask needs registers that a second row tile would take.
constexpr Tile kNarrowOperand{64, 64, 2, 4, 2};
// Up to 128 columns: 312 dense [357], 267 to 291 causal [284 to 313], 256 with a full bias.
constexpr Tile kMiddle{64, 64, 1, 4, 2};
// Beyond, half the keys: with 64 of them the causal kernel spills 8 bytes; 289 dense [320].
constexpr Tile kWide{64, 32, 1, 4, 2};

const Tile& tile(const problem::PlanKey& key) {
  const problem::Family& f = key.family;
  const int width = std::max(f.head_dim, f.head_dim_v);
  if (width > 128) return kWide;
  if (width > 64) return kMiddle;
  const bool operand = f.bias != problem::Extent::kAbsent || f.mask != problem::Extent::kAbsent;
  // Few rows: a larger tile would only be padding.
  return operand || key.bucket_q <= 64 ? kNarrowOperand : kNarrow;
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
