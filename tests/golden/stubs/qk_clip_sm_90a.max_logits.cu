// max_logits | w16
#include "attnjit/forward/max_logits.cuh"

using namespace attnjit::kernel;

inline constexpr MaxLogitsConfig kConfig{
    .num_warps = 16,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
max_logits(
    const __grid_constant__ MaxLogitsParams params) {
  max_logits<kConfig>(params);
}
