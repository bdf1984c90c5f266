// attn_fwd bf16 d32 gqa1 mask=1k bias=qk,bf16 | shared_bias q64 kv288
#include "attnjit/forward/wgmma/shared_bias.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/bit_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardSharedBiasConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 32,
    .head_dim_v = 32,
    .block_kv = 288,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardSharedBiasParams params,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BitMaskParams mask) {
  forward_shared_bias<kConfig>(params,
    Bias<kScores, DType::kBFloat16, Extent::kPerPair, true>(bias),
    BitMask<kScores, Extent::kPerKey>(mask),
    Length<kScores>());
}
