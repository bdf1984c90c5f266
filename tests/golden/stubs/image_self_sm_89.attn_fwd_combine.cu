// attn_fwd_combine fp16 dv40 | w8
#include "attnjit/forward/combine.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardCombineConfig kConfig{
    .dtype = DType::kFloat16,
    .head_dim_v = 40,
    .num_warps = 8,
    .row_max = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
attn_fwd_combine(
    const __grid_constant__ ForwardCombineParams params) {
  forward_combine<kConfig>(params);
}
