// attn_fwd bf16 d64 gqa1 packed mask=1k,scalar,packed bias=1k,bf16,scalar,packed | q64 kv64 s2 w4 b2 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/packed_sequences.cuh"
#include "attnjit/score/bias.cuh"
#include "attnjit/score/packed_keys.cuh"
#include "attnjit/score/packed_keys_mask.cuh"
#include "attnjit/score/length.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 64,
    .head_dim_v = 64,
    .gqa_ratio = 1,
    .aligned = true,
    .scale_first = true,
    .pack_gqa = false,
    .block_q = 64,
    .block_kv = 64,
    .num_stages = 2,
    .num_warps = 4,
    .min_blocks = 2,
    .softmax = SoftmaxPolicy::kMaxFree,
};
inline constexpr ScoreShape kScores = kConfig.scores();

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), kConfig.min_blocks)
attn_fwd(
    const __grid_constant__ ForwardParams params,
    const __grid_constant__ PackedSequencesParams sequences,
    const __grid_constant__ OperandParams bias,
    const __grid_constant__ ByteMaskParams mask) {
  forward_mma<kConfig>(params,
    PackedSequences<false>(sequences),
    PackedKeys<Bias<kScores, DType::kBFloat16, Extent::kPerKey, false>>(bias),
    PackedKeysMask<kScores>(mask),
    Length<kScores>());
}
