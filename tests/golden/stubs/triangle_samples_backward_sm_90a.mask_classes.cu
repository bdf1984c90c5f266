// mask_classes 1k
#include "attnjit/mask_classes.cuh"

using namespace attnjit::kernel;

inline constexpr MaskClassesConfig kConfig{
    .per_pair = false,
    .vectorized = true,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), 1)
mask_classes(
    const __grid_constant__ MaskClassesParams params) {
  mask_classes<kConfig>(params);
}
