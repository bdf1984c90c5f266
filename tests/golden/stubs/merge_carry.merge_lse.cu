// merge_lse fp16 to fp32 dv33 unaligned carry
#include "attnjit/forward/merge_lse.cuh"

using namespace attnjit::kernel;

inline constexpr MergeLseConfig kConfig{
    .part_dtype = DType::kFloat16,
    .dtype = DType::kFloat32,
    .head_dim_v = 33,
    .aligned = false,
    .carry = true,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
merge_lse(
    const __grid_constant__ MergeLseParams params) {
  merge_lse<kConfig>(params);
}
