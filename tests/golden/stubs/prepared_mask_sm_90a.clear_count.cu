// clear_count
#include "attnjit/prepass/clear_count.cuh"

using namespace attnjit::kernel;

inline constexpr ClearCountConfig kConfig{
    .num_warps = 1,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
clear_count(
    const __grid_constant__ ClearCountParams params) {
  clear_count<kConfig>(params);
}
