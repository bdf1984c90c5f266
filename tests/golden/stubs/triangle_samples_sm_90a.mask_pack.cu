// mask_pack 1k | q128 kv128 w4
#include "attnjit/mask_pack.cuh"

using namespace attnjit::kernel;

inline constexpr MaskPackConfig kConfig{
    .per_pair = false,
    .vectorized = true,
    .block_q = 128,
    .block_kv = 128,
    .num_warps = 4,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
mask_pack(
    const __grid_constant__ MaskPackParams params) {
  mask_pack<kConfig>(params);
}
