// attn_bwd_dkv bf16 d32 gqa1 bias=qk,bf16 dbias=qk,bf16,reduced | single_tile q64 kv64 s2 b3
#include "attnjit/backward/mma/single_tile.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardSingleTileConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 32,
    .head_dim_v = 32,
    .aligned = true,
    .scale_first = true,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 2,
    .min_blocks = 3,
    .sums = PlaneSums::kDbias,
    .reads_out = true,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dkv(
    const __grid_constant__ BackwardSingleTileParams params,
    const __grid_constant__ BiasPlanes planes,
    const __grid_constant__ BiasGradParams dbias,
    const __grid_constant__ OperandParams bias) {
  backward_single_tile<kConfig>(params,
    planes,
    BiasGradStore<DType::kBFloat16, true>(dbias),
    Bias<kScores, DType::kBFloat16, Extent::kPerPair, true, kConfig.late>(bias),
    Length<kScores>());
}
