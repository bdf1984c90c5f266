// attn_bwd_dkv bf16 d128 gqa4 right packed | q64 kv64 s2 w4 qw2 b1 late fresh=shared+warp dq
#include "attnjit/backward_dkv_mma.cuh"
#include "attnjit/score/packed_sequences.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = false,
    .adds_dq = true,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 2,
    .num_warps = 4,
    .query_warps = 2,
    .min_blocks = 1,
    .late = true,
    .fresh = Fresh::kSharedWarp,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dkv(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ PackedSequencesParams sequences,
    const __grid_constant__ BandParams band) {
  backward_dkv<kConfig>(params,
    NoBiasGrad{},
    PackedSequences(sequences),
    Band<kScores, false, true>(band));
}
