// attn_fwd bf16 d128 gqa4 right packed page_size=16 | wgmma q128 kv128 s2
#include "attnjit/forward/wgmma/kernel.cuh"
#include "attnjit/score/packed_sequences.cuh"
#include "attnjit/score/band.cuh"
#include "attnjit/score/paged_keys.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardWgmmaConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .head_dim_v = 128,
    .gqa_ratio = 4,
    .scale_first = false,
    .pack_gqa = false,
    .block_q = 128,
    .block_kv = 128,
    .page_kv = 16,
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
    const __grid_constant__ PackedSequencesParams sequences,
    const __grid_constant__ BandParams band,
    const __grid_constant__ PagedKeysParams pages) {
  forward_wgmma<kConfig>(params,
    PackedSequences<true>(sequences),
    Band<kScores, false, true>(band),
    PagedKeys<16>(pages));
}
