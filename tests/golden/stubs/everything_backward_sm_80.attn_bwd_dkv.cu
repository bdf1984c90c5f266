// attn_bwd_dkv fp16 d96 dv64 gqa4 left right seqlens mask=qk bias=qk,fp32 dbias=qk,fp32 | q64 kv64 s2 w8 qw4 b1 dq
#include "attnjit/backward/mma/dkv.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/seqlens.cuh"
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
    .adds_dq = true,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 2,
    .num_warps = 8,
    .query_warps = 4,
    .min_blocks = 1,
    .late = false,
    .fresh = Fresh::kNone,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dkv(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ BiasGradParams dbias,
    const __grid_constant__ SeqlensParams seqlens,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BackwardMaskParams mask,
    const __grid_constant__ BandParams band) {
  backward_dkv_mma<kConfig>(params,
    BiasGradStore<DType::kFloat32, true>(dbias),
    Seqlens(seqlens),
    Bias<kScores, DType::kFloat32, Extent::kPerPair, true, kConfig.late>(bias),
    BackwardMask<kScores, Extent::kPerPair, kConfig.late>(mask),
    Band<kScores, true, true>(band));
}
