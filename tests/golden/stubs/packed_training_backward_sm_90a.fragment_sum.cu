// fragment_sum bf16 d128 packed
#include "attnjit/backward/fragment_sum.cuh"

using namespace attnjit::kernel;

inline constexpr FragmentSumConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim = 128,
    .aligned = true,
    .packed = true,
    .stored = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), 1)
fragment_sum(
    const __grid_constant__ FragmentSumParams params) {
  fragment_sum<kConfig>(params);
}
