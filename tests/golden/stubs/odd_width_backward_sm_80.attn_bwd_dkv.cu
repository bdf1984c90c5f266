// attn_bwd_dkv bf16 d33 dv100 gqa1 bias=q1,bf16,scalar unaligned dbias=q1,bf16 | q64 kv64 s2 w8 qw4 b1 dq
#include "attnjit/backward/mma/dkv.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 33,
    .head_dim_v = 100,
    .gqa_ratio = 1,
    .aligned = false,
    .scale_first = false,
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
    const __grid_constant__ BackwardParams params) {
  backward_dkv_mma<kConfig>(params,
    NoBiasGrad{},
    Length<kScores>());
}
