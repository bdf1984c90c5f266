// attn_fwd fp16 d40 gqa1 | q128 kv64 s1 w4 b2 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim = 40,
    .head_dim_v = 40,
    .gqa_ratio = 1,
    .aligned = true,
    .scale_first = false,
    .pack_gqa = false,
    .block_q = 128,
    .block_kv = 64,
    .num_stages = 1,
    .num_warps = 4,
    .min_blocks = 2,
    .softmax = SoftmaxPolicy::kMaxFree,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params) {
  forward_mma<kConfig>(params,
    Length<kScores>());
}
