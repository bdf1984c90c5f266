// mask_to_bits 1k
#include "attnjit/prepass/mask_to_bits.cuh"

using namespace attnjit::kernel;

inline constexpr MaskToBitsConfig kConfig{
    .per_pair = false,
    .vectorized = true,
    .by_rows = true,
    .by_keys = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
mask_to_bits(
    const __grid_constant__ MaskToBitsParams params) {
  mask_to_bits<kConfig>(params);
}
