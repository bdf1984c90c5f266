// attn_fwd bf16 d128 gqa1 right bias=1k,fp32 | q64 kv64 s1 w4 b2 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 1,
    .aligned = true,
    .scale_first = true,
    .pack_gqa = false,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 1,
    .num_warps = 4,
    .min_blocks = 2,
    .softmax = SoftmaxPolicy::kMaxFree,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BandParams band) {
  forward_mma<kConfig>(params,
    Bias<kScores, DType::kFloat32, Extent::kPerKey, true>(bias),
    Band<kScores, false, true>(band));
}
