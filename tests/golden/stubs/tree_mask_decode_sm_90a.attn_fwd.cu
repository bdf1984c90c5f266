// attn_fwd bf16 d128 gqa8 mask=qk | wgmma q128 pack_gqa kv128 s2
#include "attnjit/forward/wgmma/kernel.cuh"
#include "attnjit/score/bit_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardWgmmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 8,
    .scale_first = false,
    .pack_gqa = true,
    .block_q = 128,
    .block_kv = 128,
    .page_kv = 128,
    .num_stages = 2,
    .producer_registers = 40,
    .min_blocks = 1,
    .teams = 1,
    .row_max = false,
    .plans_work = true,
    .shares_masked_path = false,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardWgmmaParams params,
    const __grid_constant__ BitMaskParams mask) {
  forward_wgmma<kConfig>(params,
    BitMask<kScores, Extent::kPerPair>(mask),
    Length<kScores>());
}
