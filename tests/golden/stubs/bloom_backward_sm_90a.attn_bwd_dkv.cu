// attn_bwd_dkv bf16 d128 gqa1 right alibi one_sided | wgmma q64 kv128 s2
#include "attnjit/backward/dkv_wgmma/kernel.cuh"
#include "attnjit/score/alibi.cuh"
#include "attnjit/score/band.cuh"

using namespace attnjit::kernel;

inline constexpr DkvWgmmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 1,
    .scale_first = true,
    .any_scale = false,
    .bias_tiles = false,
    .dq_order = DqOrder::kFirstStores,
    .owns_kv_head = false,
    .shares_work = true,
    .key_parts = 1,
    .block_q = 64,
    .num_stages = 2,
    .producer_registers = 32,
    .dq_registers = 64,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dkv(
    const __grid_constant__ DkvWgmmaParams params,
    const __grid_constant__ AlibiParams alibi,
    const __grid_constant__ BandParams band) {
  backward_dkv_wgmma<kConfig>(params,
    NoKeyBiasGrad{},
    Alibi<kScores, false, true>(alibi),
    Band<kScores, false, true>(band));
}
