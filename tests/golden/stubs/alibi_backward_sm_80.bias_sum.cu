// bias_sum fp32
#include "attnjit/backward/bias_sum.cuh"

using namespace attnjit::kernel;

inline constexpr BiasSumConfig kConfig{
    .dtype = DType::kFloat32,
    .partials = DType::kFloat32,
    .vectorized = true,
    .over_queries = false,
    .packed = false,
    .groups = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), 1)
bias_sum(
    const __grid_constant__ BiasSumParams params) {
  bias_sum<kConfig>(params);
}
