// attn_fwd fp16 d96 dv64 gqa4 left right seqlens mask=qk bias=qk,fp32,scalar | q64 kv32 s1 w4 b2 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/seqlens.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/bit_mask.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim = 96,
    .head_dim_v = 64,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = true,
    .pack_gqa = false,
    .block_q = 64,
    .block_kv = 32,
    .num_stages = 1,
    .num_warps = 4,
    .min_blocks = 2,
    .softmax = SoftmaxPolicy::kMaxFree,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params,
    const __grid_constant__ SeqlensParams seqlens,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BitMaskParams mask,
    const __grid_constant__ BandParams band) {
  forward_mma<kConfig>(params,
    Seqlens(seqlens),
    Bias<kScores, DType::kFloat32, Extent::kPerPair, false>(bias),
    BitMask<kScores, Extent::kPerPair>(mask),
    Band<kScores, true, true>(band));
}
