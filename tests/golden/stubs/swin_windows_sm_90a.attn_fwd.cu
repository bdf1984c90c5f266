// attn_fwd bf16 d32 gqa1 bias=qk,bf16 | single_tile q64 kv64 b4
#include "attnjit/forward/mma/single_tile.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardSingleTileConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 32,
    .head_dim_v = 32,
    .gqa_ratio = 1,
    .aligned = true,
    .scale_first = true,
    .block_q = 64,
    .block_kv = 64,
    .min_blocks = 4,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardSingleTileParams params,
    const __grid_constant__ OperandParams bias) {
  forward_single_tile<kConfig>(params,
    Bias<kScores, DType::kBFloat16, Extent::kPerPair, true>(bias),
    Length<kScores>());
}
