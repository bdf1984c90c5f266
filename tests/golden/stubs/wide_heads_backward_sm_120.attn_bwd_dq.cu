// attn_bwd_dq bf16 d256 gqa2 right deterministic | q64 kv32 s1 w4 qw4 b1
#include "attnjit/backward/mma/dq.cuh"
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
    .block_q = 64,
    .block_kv = 32,
    .num_stages = 1,
    .num_warps = 4,
    .query_warps = 4,
    .min_blocks = 1,
    .late = false,
    .fresh = Fresh::kNone,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dq(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ BandParams band) {
  backward_dq_mma<kConfig>(params,
    Band<kScores, false, true>(band));
}
