// attn_fwd bf16 d192 dv128 gqa1 right | wgmma q128 kv96 s2
#include "attnjit/forward/wgmma/kernel.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardWgmmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 192,
    .head_dim_v = 128,
    .gqa_ratio = 1,
    .scale_first = false,
    .pack_gqa = false,
    .block_q = 128,
    .block_kv = 96,
    .page_kv = 96,
    .num_stages = 2,
    .producer_registers = 40,
    .min_blocks = 1,
    .teams = 1,
    .row_max = false,
    .plans_work = false,
    .shares_masked_path = false,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardWgmmaParams params,
    const __grid_constant__ BandParams band) {
  forward_wgmma<kConfig>(params,
    Band<kScores, false, true>(band));
}
