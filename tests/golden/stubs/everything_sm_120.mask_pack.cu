// mask_pack qk | q64 kv32 w4
#include "attnjit/mask_pack.cuh"

using namespace attnjit::kernel;

inline constexpr MaskPackConfig kConfig{
    .per_pair = true,
    .vectorized = true,
    .block_q = 64,
    .block_kv = 32,
    .num_warps = 4,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
mask_pack(
    const __grid_constant__ MaskPackParams params) {
  mask_pack<kConfig>(params);
}
