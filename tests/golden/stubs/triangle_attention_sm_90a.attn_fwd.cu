// attn_fwd bf16 d32 gqa1 mask=1k bias=qk,bf16 | wgmma q128 kv128 s2
#include "attnjit/forward/wgmma/kernel.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/bit_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardWgmmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 32,
    .head_dim_v = 32,
    .gqa_ratio = 1,
    .scale_first = true,
    .pack_gqa = false,
    .block_q = 128,
    .block_kv = 128,
    .page_kv = 128,
    .num_stages = 2,
    .producer_registers = 48,
    .min_blocks = 1,
    .teams = 1,
    .row_max = false,
    .plans_work = false,
    .shares_masked_path = true,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardWgmmaParams params,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ BitMaskParams mask) {
  forward_wgmma<kConfig>(params,
    Bias<kScores, DType::kBFloat16, Extent::kPerPair, true>(bias),
    BitMask<kScores, Extent::kPerKey>(mask),
    Length<kScores>());
}
