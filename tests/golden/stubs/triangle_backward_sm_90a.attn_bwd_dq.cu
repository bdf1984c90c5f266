// attn_bwd_dq bf16 d32 gqa1 mask=1k bias=qk,bf16 dbias=qk,bf16,reduced deterministic | shared_bias q64 kv256 s2
#include "attnjit/backward/mma/shared_bias_queries.cuh"
#include "attnjit/score/bias_grad.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/backward_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardSharedBiasConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 32,
    .head_dim_v = 32,
    .keys_at_rest = false,
    .block_q = 64,
    .block_kv = 256,
    .num_stages = 2,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dq(
    const __grid_constant__ BackwardParams params,
    const __grid_constant__ BiasPlanes planes,
    const __grid_constant__ BiasGradParams dbias,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BackwardMaskParams mask) {
  backward_shared_bias_queries<kConfig>(params,
    planes,
    BiasGradStore<DType::kBFloat16, true>(dbias),
    Bias<kScores, DType::kBFloat16, Extent::kPerPair, true, kConfig.late>(bias),
    BackwardMask<kScores, Extent::kPerKey, kConfig.late>(mask),
    Length<kScores>());
}
