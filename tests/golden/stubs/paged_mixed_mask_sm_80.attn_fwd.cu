// attn_fwd bf16 d128 gqa4 packed mask=qk page_size=256 | q128 kv32 s2 w4 b2 max_free
#include "attnjit/forward/mma/kernel.cuh"
#include "attnjit/score/packed_sequences.cuh"
#include "attnjit/score/bit_mask.cuh"
#include "attnjit/score/length.cuh"
#include "attnjit/score/paged_keys.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardMmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 4,
    .aligned = true,
    .scale_first = false,
    .pack_gqa = false,
    .block_q = 128,
    .block_kv = 32,
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
    const __grid_constant__ BitMaskParams mask,
    const __grid_constant__ PagedKeysParams pages) {
  forward_mma<kConfig>(params,
    PackedSequences<true>(sequences),
    BitMask<kScores, Extent::kPerPair>(mask),
    Length<kScores>(),
    PagedKeys<256>(pages));
}
