// attn_bwd_dkv bf16 d64 gqa1 packed bias=qk,bf16 dbias=qk,bf16,reduced | q64 kv64 s2 w4 qw2 b2 dq
#include "attnjit/backward/mma/dkv.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/packed_sequences.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 64,
    .head_dim_v = 64,
    .gqa_ratio = 1,
    .aligned = true,
    .scale_first = true,
    .adds_dq = true,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 2,
    .num_warps = 4,
    .query_warps = 2,
    .min_blocks = 2,
    .late = false,
    .fresh = Fresh::kNone,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dkv(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ BiasGradParams dbias,
    const __grid_constant__ PackedSequencesParams sequences,
    const __grid_constant__ OperandParams bias) {
  backward_dkv_mma<kConfig>(params,
    BiasGradAdd(dbias),
    PackedSequences<false>(sequences),
    Bias<kScores, DType::kBFloat16, Extent::kPerPair, true, kConfig.late>(bias),
    Length<kScores>());
}
