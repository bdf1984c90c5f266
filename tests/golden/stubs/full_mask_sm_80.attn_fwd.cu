// attn_fwd bf16 d64 gqa1 mask=qk | q64 kv64 s2 w4 b2 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/bit_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 64,
    .head_dim_v = 64,
    .gqa_ratio = 1,
    .aligned = true,
    .scale_first = false,
    .pack_gqa = false,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 2,
    .num_warps = 4,
    .min_blocks = 2,
    .softmax = SoftmaxPolicy::kMaxFree,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params,
    const __grid_constant__ BitMaskParams mask) {
  forward_mma<kConfig>(params,
    BitMask<kScores, Extent::kPerPair>(mask),
    Length<kScores>());
}
