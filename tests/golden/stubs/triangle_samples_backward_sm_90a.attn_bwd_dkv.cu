// attn_bwd_dkv bf16 d32 gqa1 mask=1k bias=qk,bf16,grouped dbias=qk,bf16,grouped,few | wgmma q64 kv128 s2
#include "attnjit/backward/dkv_wgmma/kernel.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/batch_groups.cuh"
#include "attnjit/score/backward_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr DkvWgmmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 32,
    .head_dim_v = 32,
    .gqa_ratio = 1,
    .scale_first = true,
    .any_scale = false,
    .bias_tiles = true,
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
    const __grid_constant__ BiasGradParams dbias,
    const __grid_constant__ Grouped<OperandParams> bias,
    const __grid_constant__ BackwardMaskParams mask) {
  backward_dkv_wgmma<kConfig>(params,
    KeyBiasGradPerPlane(dbias),
    BatchGroups<Bias<kScores, DType::kBFloat16, Extent::kPerPair, true, kConfig.late>>(bias),
    BackwardMask<kScores, Extent::kPerKey, kConfig.late>(mask),
    Length<kScores>());
}
