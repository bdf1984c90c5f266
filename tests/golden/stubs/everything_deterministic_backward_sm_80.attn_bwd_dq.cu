// attn_bwd_dq fp16 d96 dv64 gqa4 right mask=qk bias=qk,fp32 dbias=qk,fp32,reduced,few deterministic | q128 kv32 s2 w8 qw8 b1
#include "attnjit/backward/mma/dq.cuh"
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
    .block_q = 128,
    .block_kv = 32,
    .num_stages = 2,
    .num_warps = 8,
    .query_warps = 8,
    .min_blocks = 1,
    .late = false,
    .fresh = Fresh::kNone,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dq(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BackwardMaskParams mask,
    const __grid_constant__ BandParams band) {
  backward_dq_mma<kConfig>(params,
    Bias<kScores, DType::kFloat32, Extent::kPerPair, true, kConfig.late>(bias),
    BackwardMask<kScores, Extent::kPerPair, kConfig.late>(mask),
    Band<kScores, false, true>(band));
}
