// attn_bwd_dbias bf16 d32 gqa1 mask=1k bias=qk,bf16 dbias=qk,bf16,reduced deterministic | q128 kv64 s1 w8 qw4 b2
#include "attnjit/backward/mma/dbias.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/backward_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 32,
    .head_dim_v = 32,
    .gqa_ratio = 1,
    .aligned = true,
    .scale_first = true,
    .adds_dq = false,
    .block_q = 128,
    .block_kv = 64,
    .num_stages = 1,
    .num_warps = 8,
    .query_warps = 4,
    .min_blocks = 2,
    .late = false,
    .fresh = Fresh::kNone,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dbias(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ BiasPlanes planes,
    const __grid_constant__ BiasGradParams dbias,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BackwardMaskParams mask) {
  backward_dbias_mma<kConfig>(params,
    planes,
    BiasGradStore<DType::kBFloat16, true>(dbias),
    Bias<kScores, DType::kBFloat16, Extent::kPerPair, true, kConfig.late>(bias),
    BackwardMask<kScores, Extent::kPerKey, kConfig.late>(mask),
    Length<kScores>());
}
