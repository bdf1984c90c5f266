// merge_lse bf16 to bf16 dv128
#include "attnjit/forward/merge_lse.cuh"

using namespace attnjit::kernel;

inline constexpr MergeLseConfig kConfig{
    .part_dtype = DType::kBFloat16,
    .dtype = DType::kBFloat16,
    .head_dim_v = 128,
    .aligned = true,
    .carry = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
merge_lse(
    const __grid_constant__ MergeLseParams params) {
  merge_lse<kConfig>(params);
}
