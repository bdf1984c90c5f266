// attn_bwd_dkv bf16 d64 gqa1 mask=qk | wgmma q64 kv128 s2
#include "attnjit/backward/dkv_wgmma/kernel.cuh"
#include "attnjit/score/backward_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr DkvWgmmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 64,
    .head_dim_v = 64,
    .gqa_ratio = 1,
    .scale_first = false,
    .any_scale = false,
    .bias_tiles = false,
    .dq_order = DqOrder::kAny,
    .owns_kv_head = false,
    .shares_work = true,
    .key_parts = 1,
    .block_q = 64,
    .num_stages = 2,
    .producer_registers = 40,
    .dq_registers = 72,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_bwd_dkv(
    const __grid_constant__ DkvWgmmaParams params,
    const __grid_constant__ BackwardMaskParams mask) {
  backward_dkv_wgmma<kConfig>(params,
    NoKeyBiasGrad{},
    BackwardMask<kScores, Extent::kPerPair, kConfig.late>(mask),
    Length<kScores>());
}
