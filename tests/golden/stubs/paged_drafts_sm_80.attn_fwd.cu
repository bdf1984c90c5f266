// attn_fwd bf16 d128 gqa4 seqlens tail_mask page_size=256 | q64 kv64 s1 w4 b2 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/seqlens.cuh"
#include "attnjit/score/length.cuh"
#include "attnjit/score/paged_keys.cuh"
#include "attnjit/score/tail_mask.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = false,
    .pack_gqa = false,
    .block_q = 64,
    .block_kv = 64,
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
    const __grid_constant__ PagedKeysParams pages,
    const __grid_constant__ TailMaskParams tail_mask) {
  forward_mma<kConfig>(params,
    Seqlens(seqlens),
    Length<kScores>(),
    PagedKeys<256>(pages),
    TailMask<kScores>(tail_mask));
}
