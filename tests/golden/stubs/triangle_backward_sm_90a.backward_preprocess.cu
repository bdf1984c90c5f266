// backward_preprocess bf16 dv32
#include "attnjit/backward/preprocess.cuh"

using namespace attnjit::kernel;

inline constexpr BackwardPreprocessConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim_v = 32,
    .aligned = true,
    .bf16x3 = false,
    .dq_columns = 0,
    .sink = false,
    .sink_dtype = DType::kFloat32,
    .row_mask = false,
    .row_bias = false,
    .bias_dtype = DType::kBFloat16,
    .packed = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads(), 1)
backward_preprocess(
    const __grid_constant__ BackwardPreprocessParams params) {
  backward_preprocess<kConfig>(params);
}
