// mask_pack qk
#include "attnjit/prepass/mask_pack.cuh"

using namespace attnjit::kernel;

inline constexpr MaskPackConfig kConfig{
    .per_pair = true,
    .vectorized = true,
    .by_rows = true,
    .by_keys = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
mask_pack(
    const __grid_constant__ MaskPackParams params) {
  mask_pack<kConfig>(params);
}
