// attn_bwd_dkv bf16 d256 gqa2 right deterministic | q32 kv32 s1 w8 qw2 b1
#include "attnjit/backward/mma/dkv.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 256,
    .head_dim_v = 256,
    .gqa_ratio = 2,
    .aligned = true,
    .scale_first = false,
    .adds_dq = false,
    .block_q = 32,
    .block_kv = 32,
    .num_stages = 1,
    .num_warps = 8,
    .query_warps = 2,
    .min_blocks = 1,
    .late = false,
    .fresh = Fresh::kNone,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dkv(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ BandParams band) {
  backward_dkv_mma<kConfig>(params,
    NoBiasGrad{},
    Band<kScores, false, true>(band));
}
