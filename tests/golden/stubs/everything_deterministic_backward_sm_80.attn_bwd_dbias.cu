// attn_bwd_dbias fp16 d96 dv64 gqa4 right mask=qk bias=qk,fp32 dbias=qk,fp32,reduced,few deterministic | q64 kv64 s1 w8 qw4 b1
#include "attnjit/backward/mma/dbias.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/backward_mask.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardMmaConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim = 96,
    .head_dim_v = 64,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = true,
    .adds_dq = false,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 1,
    .num_warps = 8,
    .query_warps = 4,
    .min_blocks = 1,
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
    const __grid_constant__ BackwardMaskParams mask,
    const __grid_constant__ BandParams band) {
  backward_dbias_mma<kConfig>(params,
    planes,
    BiasGradStore<DType::kFloat32, true>(dbias),
    Bias<kScores, DType::kFloat32, Extent::kPerPair, true, kConfig.late>(bias),
    BackwardMask<kScores, Extent::kPerPair, kConfig.late>(mask),
    Band<kScores, false, true>(band));
}
