// attn_fwd bf16 d128 gqa4 right | q16 pack_gqa kv32 s3 w1 b4 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = false,
    .pack_gqa = true,
    .block_q = 16,
    .block_kv = 32,
    .num_stages = 3,
    .num_warps = 1,
    .min_blocks = 4,
    .softmax = SoftmaxPolicy::kMaxFree,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params,
    const __grid_constant__ BandParams band) {
  forward_mma<kConfig>(params,
    Band<kScores, false, true>(band));
}
