// attn_fwd_combine bf16 dv32 | w8
#include "attnjit/forward/combine.cuh"

using namespace attnjit::kernel;

inline constexpr ForwardCombineConfig kConfig{
    .dtype = DType::kBFloat16,
    .head_dim_v = 32,
    .num_warps = 8,
    .row_max = false,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
attn_fwd_combine(
    const __grid_constant__ ForwardCombineParams params) {
  forward_combine<kConfig>(params);
}
