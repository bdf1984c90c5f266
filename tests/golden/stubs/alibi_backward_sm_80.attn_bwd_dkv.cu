// attn_bwd_dkv bf16 d128 gqa1 right bias=1k,fp32 dbias=1k,fp32,reduced | q64 kv64 s2 w8 qw4 b1 dq
#include "attnjit/backward/mma/dkv.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 1,
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
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BandParams band) {
  backward_dkv_mma<kConfig>(params,
    BiasGradColumns<kConfig.warp_keys() / 32>(dbias),
    Bias<kScores, DType::kFloat32, Extent::kPerKey, true, kConfig.late>(bias),
    Band<kScores, false, true>(band));
}
